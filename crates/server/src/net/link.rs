//! The socket between two processes of Larder, of which one takes over from the other: messages
//! in JSON, with descriptors.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    cmsg_space,
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use serde_json::Value;

/// Bytes of a message, at most.
pub(crate) const LONGEST: usize = 128 << 10;
/// Descriptors of a message, at most.
pub(crate) const MOST: usize = 64;
/// Longest wait for the other side to take a message: it has a thread that does nothing else.
const SEND: Duration = Duration::from_secs(5);

/// One end.
#[derive(Debug)]
pub struct Link(OwnedFd);

/// A message and its descriptors.
pub(crate) type Message = (Value, Vec<OwnedFd>);

impl Link {
    /// Both ends; the second is for the other process, which has it from its start.
    pub fn pair() -> io::Result<(Link, OwnedFd)> {
        let (own, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Link::new(own)?, other))
    }

    /// An end that another process has made.
    pub fn new(socket: OwnedFd) -> io::Result<Link> {
        set_socket_timeout(&socket, Timeout::Send, Some(SEND))?;
        Ok(Link(socket))
    }

    /// Tells the process before this one why this one cannot take over.
    pub fn refuse(&self, reason: &str) {
        let reason: String = reason.chars().take(LONGEST / 16).collect();
        let _ = self.send(&serde_json::json!({"kind": "failed", "reason": reason}), &[]);
    }

    pub(crate) fn send(&self, message: &Value, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = message.to_string();
        if text.len() > LONGEST || descriptors.len() > MOST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            with.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let bytes = [io::IoSlice::new(text.as_bytes())];
        retry_on_intr(|| sendmsg(&self.0, &bytes, &mut with, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    /// The next message; `None`: the other side has ended.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`]: none came within this time.
    pub(crate) fn receive(&self, within: Option<Duration>) -> io::Result<Option<Message>> {
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        let within = within.map(|within| Timespec {
            tv_sec: within.as_secs() as i64,
            tv_nsec: within.subsec_nanos().into(),
        });
        if retry_on_intr(|| poll(&mut ready, within.as_ref()))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let received = retry_on_intr(|| {
            let mut slices = [io::IoSliceMut::new(&mut bytes)];
            recvmsg(&self.0, &mut slices, &mut with, RecvFlags::CMSG_CLOEXEC)
        });
        let received = match received {
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            received => received?.bytes,
        };
        let mut descriptors = Vec::new();
        for message in with.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received == 0 {
            return Ok(None);
        }
        Ok(Some((serde_json::from_slice(&bytes[..received])?, descriptors)))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use serde_json::json;

    use super::*;

    #[test]
    fn messages_come_whole_with_their_descriptors() {
        let (one, other) = Link::pair().expect("a pair");
        let other = Link::new(other).expect("an end");
        let (mut near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        one.send(&json!({"kind": "first", "text": "x".repeat(10_000)}), &[]).expect("sent");
        one.send(&json!({"kind": "second"}), &[far.as_fd(), far.as_fd()]).expect("sent");
        assert!(one.send(&json!("x".repeat(LONGEST)), &[]).is_err());
        drop(far);
        let soon = Some(Duration::from_secs(10));
        let (first, none) = other.receive(soon).expect("received").expect("a message");
        assert_eq!((first["kind"].as_str(), none.len()), (Some("first"), 0));
        let (_, mut both) = other.receive(soon).expect("received").expect("a message");
        assert_eq!(both.len(), 2);
        near.write_all(b"hello").expect("sent");
        let mut far = std::os::unix::net::UnixStream::from(both.remove(0));
        let mut bytes = [0; 5];
        far.read_exact(&mut bytes).expect("received");
        assert_eq!(&bytes, b"hello");
        let none = other.receive(Some(Duration::ZERO)).expect_err("nothing more");
        assert_eq!(none.kind(), io::ErrorKind::TimedOut);
        drop(one);
        assert!(other.receive(soon).expect("the end").is_none());
    }
}
