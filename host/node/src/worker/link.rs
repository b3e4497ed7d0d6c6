//! The worker's side of the connection to the leader.

use crate::protocol::{FrameBuffer, FrameError, FromWorker, ToWorker, encode};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;

/// The size of one read. Several ordinary assignments fit.
const READ_BYTES: usize = 64 << 10;

/// The result of a read from the socket.
#[expect(clippy::large_enum_variant, reason = "there is only one at a time")]
#[derive(Debug, PartialEq)]
pub(super) enum SocketEvent {
    Message(ToWorker),
    /// No message yet.
    None,
    /// The leader is gone.
    Closed,
}

/// Receives the leader's messages from a socket. Sends reports through a pipe if the zygote forked
/// this worker, otherwise through the same socket. Reports are collected and sent together, because
/// every write wakes the leader.
#[derive(Debug)]
pub(super) struct LeaderLink {
    stream: UnixStream,
    reports: File,
    incoming: FrameBuffer,
    outgoing: Vec<u8>,
    read_buffer: Vec<u8>,
}

impl LeaderLink {
    pub(super) fn new(stream: UnixStream, reports: File) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        let incoming = FrameBuffer::default();
        let outgoing = Vec::new();
        Ok(Self { stream, reports, incoming, outgoing, read_buffer: vec![0; READ_BYTES] })
    }

    pub(super) fn queue(&mut self, message: &FromWorker) -> io::Result<()> {
        encode(message, &mut self.outgoing).map_err(io_error)
    }

    /// Sends the queued messages.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.outgoing.is_empty() {
            self.reports.write_all(&self.outgoing)?;
            self.outgoing.clear();
        }
        Ok(())
    }

    /// The next message, if it has arrived. Sends nothing.
    pub(super) fn poll(&mut self) -> io::Result<SocketEvent> {
        self.next(RecvFlags::DONTWAIT)
    }

    /// Sends the queued messages, then waits for the next message.
    pub(super) fn wait(&mut self) -> io::Result<SocketEvent> {
        self.flush()?;
        self.next(RecvFlags::empty())
    }

    fn next(&mut self, flags: RecvFlags) -> io::Result<SocketEvent> {
        loop {
            if let Some(message) = self.incoming.next_message().map_err(io_error)? {
                return Ok(SocketEvent::Message(message));
            }
            match recv(&self.stream, self.read_buffer.as_mut_slice(), flags) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(SocketEvent::Closed),
                Ok((count, _)) => self.incoming.push(&self.read_buffer[..count]),
                Err(Errno::AGAIN) => return Ok(SocketEvent::None),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

fn io_error(error: FrameError) -> io::Error {
    match error {
        FrameError::Io(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MiniBatchId;
    use crate::protocol::read_frame;
    use std::os::fd::OwnedFd;

    #[test]
    fn messages_are_received_and_sent_in_order() {
        let (mut leader, worker) = UnixStream::pair().unwrap();
        let (mut reports, sender) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reports, true).unwrap();
        let mut link = LeaderLink::new(worker, OwnedFd::from(sender).into()).unwrap();
        assert_eq!(link.poll().unwrap(), SocketEvent::None);
        let mut wire = Vec::new();
        encode(&ToWorker::Shutdown, &mut wire).unwrap();
        encode(&ToWorker::Shutdown, &mut wire).unwrap();
        leader.write_all(&wire[..wire.len() - 1]).unwrap();
        assert_eq!(link.poll().unwrap(), SocketEvent::Message(ToWorker::Shutdown));
        assert_eq!(link.poll().unwrap(), SocketEvent::None);

        let started = FromWorker::Started { id: MiniBatchId(1) };
        link.queue(&started).unwrap();
        let mut scratch = Vec::new();
        assert!(read_frame::<FromWorker>(&mut reports, &mut scratch).is_err());
        leader.write_all(&wire[wire.len() - 1..]).unwrap();
        assert_eq!(link.wait().unwrap(), SocketEvent::Message(ToWorker::Shutdown));
        assert_eq!(read_frame(&mut reports, &mut scratch).unwrap(), Some(started));
        drop((leader, reports));
        assert_eq!(link.poll().unwrap(), SocketEvent::Closed);
        link.queue(&FromWorker::Restarting).unwrap();
        assert!(link.wait().is_err(), "the leader has closed the pipe");
    }

    #[test]
    fn a_malformed_message_is_an_error() {
        let (mut leader, worker) = UnixStream::pair().unwrap();
        leader.write_all(&[1, 0, 0, 0, 250]).unwrap();
        let reports = OwnedFd::from(worker.try_clone().unwrap()).into();
        assert!(LeaderLink::new(worker, reports).unwrap().wait().is_err());
    }
}
