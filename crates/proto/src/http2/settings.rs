//! SETTINGS, ours and the client's (RFC 9113 section 6.5).

use super::connection::{Connection, Handled};
use super::error::Fault;
use super::event::Event;
use super::flood::Flood;
use super::frame::{self, FrameHead, flag};
use super::limits::Limits;
use super::{DEFAULT_WINDOW, MAX_31_BITS};
use crate::hpack::DEFAULT_TABLE_SIZE;

/// Identifiers of settings.
pub mod id {
    #![expect(missing_docs, reason = "the names are those of RFC 9113 section 6.5.2")]
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// RFC 8441 section 3
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// RFC 9218 section 2.1
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Settings of the client that matter to a server.
#[derive(Debug)]
pub(super) struct PeerSettings {
    pub(super) initial_window: u32,
    pub(super) max_frame: u32,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self { initial_window: DEFAULT_WINDOW, max_frame: frame::MIN_MAX_BYTES }
    }
}

/// Appends our SETTINGS.
pub(super) fn announce(limits: &Limits, out: &mut Vec<u8>) {
    let mut settings = [(0, 0); 7];
    let all = [
        (true, id::MAX_CONCURRENT_STREAMS, limits.concurrent_streams),
        (true, id::INITIAL_WINDOW_SIZE, limits.stream_window.min(MAX_31_BITS)),
        (true, id::MAX_HEADER_LIST_SIZE, limits.header_list_bytes),
        (true, id::NO_RFC7540_PRIORITIES, 1),
        (limits.table_bytes != DEFAULT_TABLE_SIZE, id::HEADER_TABLE_SIZE, limits.table_bytes),
        (limits.frame_bytes != frame::MIN_MAX_BYTES, id::MAX_FRAME_SIZE, limits.frame_bytes),
        (limits.connect_protocol, id::ENABLE_CONNECT_PROTOCOL, 1),
    ];
    let mut count = 0;
    for (_, id, value) in all.into_iter().filter(|(sent, ..)| *sent) {
        settings[count] = (id, value);
        count += 1;
    }
    frame::write_settings(&settings[..count], out);
}

impl Connection {
    /// A SETTINGS frame (section 6.5).
    pub(super) fn settings(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Handled {
        self.floods.count(Flood::Settings, &limits.floods)?;
        if head.has(flag::ACK) {
            self.acknowledged(limits);
            return Ok(None);
        }
        let ready = self.send > 0 && self.streams.any_ready();
        for setting in payload.chunks_exact(6) {
            let (id, value) = setting.split_at(2);
            let id = u16::from_be_bytes([id[0], id[1]]);
            self.setting(id, super::connection::error_code(value))?;
        }
        self.floods.count(Flood::UnsentAnswers, &limits.floods)?;
        frame::write_settings_ack(out);
        let opened = !ready && self.send > 0 && self.streams.any_ready();
        Ok(opened.then_some(Event::Writable))
    }

    fn setting(&mut self, id: u16, value: u32) -> Result<(), Fault> {
        match (id, value) {
            (id::HEADER_TABLE_SIZE, _) => self.encoder.set_peer_table_size(value),
            (id::ENABLE_PUSH | id::ENABLE_CONNECT_PROTOCOL | id::NO_RFC7540_PRIORITIES, 2..) => {
                return Err(Fault::protocol("a setting is neither 0 nor 1"));
            }
            (id::INITIAL_WINDOW_SIZE, _) => {
                if value > MAX_31_BITS {
                    return Err(Fault::flow("the initial window is above 2^31-1"));
                }
                let by = i64::from(value) - i64::from(self.peer.initial_window);
                self.peer.initial_window = value;
                if !self.streams.change_send_windows(by) {
                    return Err(Fault::flow("a stream's window is above 2^31-1"));
                }
            }
            (id::MAX_FRAME_SIZE, frame::MIN_MAX_BYTES..=frame::MAX_MAX_BYTES) => {
                self.peer.max_frame = value;
            }
            (id::MAX_FRAME_SIZE, _) => {
                return Err(Fault::protocol("the largest frame is out of range"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The client knows our settings (section 6.5.3). Until then it may count with the defaults
    /// where ours are lower.
    fn acknowledged(&mut self, limits: &Limits) {
        if std::mem::replace(&mut self.acknowledged, true) {
            return;
        }
        self.decoder.set_table_size(limits.table_bytes);
        let ours = limits.stream_window.min(MAX_31_BITS);
        if ours < DEFAULT_WINDOW {
            self.streams.change_receive_windows(i64::from(ours) - i64::from(DEFAULT_WINDOW));
        }
    }

    /// Receive window of a new stream.
    #[inline]
    pub(super) fn receive_window(&self, limits: &Limits) -> i32 {
        let ours = limits.stream_window.min(MAX_31_BITS);
        let window = if self.acknowledged { ours } else { ours.max(DEFAULT_WINDOW) };
        window as i32
    }
}
