//! Floods: frames that cost their receiver more than their sender (RFC 9113 section 10.5).
//!
//! Each kind has a counter. A frame of the kind adds one, a request that was answered takes one
//! from most of them ([`PAID`]), and a tick of the caller halves them. A counter above its limit
//! ends the connection with `ENHANCE_YOUR_CALM`. So a client may do most things as often as it
//! completes requests, and anything at a rate below half of the limit per tick.

use super::error::Fault;

macro_rules! floods {
    ($($(#[$doc:meta])* $variant:ident $field:ident $limit:literal,)*) => {
        /// A kind of abuse that is counted and limited.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Flood {
            $($(#[$doc])* $variant,)*
        }

        impl Flood {
            /// Every kind, in the order of [`Flood::index`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// A short name for logs and counters: lower-case, underscores.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($field),)* }
            }
        }

        /// The limit of each kind of flood: the counter may reach it, and one more ends the
        /// connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct FloodLimits {
            $($(#[$doc])* pub $field: u16,)*
        }

        impl Default for FloodLimits {
            fn default() -> Self {
                Self { $($field: $limit,)* }
            }
        }

        impl FloodLimits {
            const fn of(&self, flood: Flood) -> u16 {
                match flood { $(Flood::$variant => self.$field,)* }
            }
        }
    };
}

floods! {
    /// Streams that the client reset before they were answered (CVE-2023-44487).
    RapidReset rapid_reset 200,
    /// Streams that the server had to reset because of the client's frames (CVE-2025-8671).
    MadeYouReset made_you_reset 100,
    /// CONTINUATION frames of one header block (CVE-2024-27316). The count starts anew with each.
    Continuations continuations 16,
    /// Header blocks in several frames that together are above [`super::Limits::block_bytes`]. One
    /// is enough, whatever the limit.
    BlockBytes block_bytes 0,
    /// SETTINGS frames (CVE-2019-9515).
    Settings settings 100,
    /// PING frames (CVE-2019-9512).
    Pings pings 1000,
    /// Answers to PING and SETTINGS frames, and resets, that the client has not received. The count
    /// starts anew when the caller says that all output was sent, and changes in no other way.
    UnsentAnswers unsent_answers 1000,
    /// DATA frames without data and without END_STREAM, and empty CONTINUATION frames
    /// (CVE-2019-9518).
    EmptyFrames empty_frames 100,
    /// WINDOW_UPDATE frames. Each DATA frame that is sent takes two from the counter.
    WindowUpdates window_updates 2000,
    /// PRIORITY and PRIORITY_UPDATE frames (CVE-2019-9513).
    Priorities priorities 1000,
    /// Streams above the limit of concurrent ones; each was refused.
    RefusedStreams refused_streams 200,
    /// Header lists above the limit, of requests (each was answered 431) and of others. A single
    /// one that is many times as large is enough.
    HeaderLists header_lists 20,
    /// Frames of unknown types, and frames on streams that are closed.
    Ignored ignored 2000,
}

impl Flood {
    /// Number of kinds: the length of an array of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// The index of this kind in such an array.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The numbers that a request that was answered takes from the counters.
const PAID: [u16; Flood::COUNT] = {
    let mut paid = [1; Flood::COUNT];
    // Streams that are reset have cost an origin's work, and a hit that costs the client nothing
    // would pay for each. The 431 for a list would pay for the list itself.
    paid[Flood::RapidReset.index()] = 0;
    paid[Flood::MadeYouReset.index()] = 0;
    paid[Flood::HeaderLists.index()] = 0;
    // Only sending helps.
    paid[Flood::UnsentAnswers.index()] = 0;
    paid
};

/// The counters of one connection.
#[derive(Debug, Default)]
pub(super) struct Floods([u16; Flood::COUNT]);

impl Floods {
    /// Counts one.
    #[inline]
    pub(super) fn count(&mut self, flood: Flood, limits: &FloodLimits) -> Result<(), Fault> {
        let counter = &mut self.0[flood.index()];
        *counter = counter.saturating_add(1);
        if *counter > limits.of(flood) { Err(Fault::flood(flood)) } else { Ok(()) }
    }

    /// Takes `n` from one counter.
    #[inline]
    pub(super) fn relieve(&mut self, flood: Flood, n: u16) {
        let counter = &mut self.0[flood.index()];
        *counter = counter.saturating_sub(n);
    }

    /// A request was answered.
    #[inline]
    pub(super) fn answered(&mut self) {
        for (counter, paid) in self.0.iter_mut().zip(PAID) {
            *counter = counter.saturating_sub(paid);
        }
    }

    /// Starts a counter anew.
    #[inline]
    pub(super) fn clear(&mut self, flood: Flood) {
        self.0[flood.index()] = 0;
    }

    /// Time has passed. Only sending helps answers that wait.
    pub(super) fn tick(&mut self) {
        let unsent = self.0[Flood::UnsentAnswers.index()];
        for counter in &mut self.0 {
            *counter /= 2;
        }
        self.0[Flood::UnsentAnswers.index()] = unsent;
    }
}
