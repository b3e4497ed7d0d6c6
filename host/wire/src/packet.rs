//! Messages with file descriptors between two processes that trust each other. Each message arrives as a
//! whole or not at all.

use super::frame::decode;
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest message, in bytes. This is enough for some hundred paths.
const MAX_PACKET_BYTES: usize = 128 << 10;
/// The most file descriptors that come with a message.
const MAX_DESCRIPTORS: usize = 3;

/// Two ends of a new socket that preserves message boundaries.
pub fn packets() -> io::Result<(OwnedFd, OwnedFd)> {
    let family = AddressFamily::UNIX;
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message with these file descriptors, at most three.
pub fn send_packet<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if bytes.len() > MAX_PACKET_BYTES {
        return Err(io::Error::other(format!("a message of {} bytes is too long", bytes.len())));
    }
    let mut control_bytes =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut control_bytes);
    let rights = SendAncillaryMessage::ScmRights(descriptors);
    // The buffer alone is not a limit: alignment may give it room for more descriptors.
    if descriptors.len() > MAX_DESCRIPTORS || !descriptors.is_empty() && !control.push(rights) {
        return Err(io::Error::other(format!("{} descriptors are too many", descriptors.len())));
    }
    let parts = [IoSlice::new(&bytes)];
    retry_on_intr(|| sendmsg(&socket, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Waits for a message and the file descriptors that come with it. `None` once the other end is closed.
pub fn receive_packet<T: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MAX_PACKET_BYTES];
    let mut control_bytes =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut control_bytes);
    let received = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::other("a message was truncated on its way"));
    }
    // We never send an empty message, so zero bytes mean the end.
    if received.bytes == 0 {
        return Ok(None);
    }
    let message = decode(&bytes[..received.bytes]).map_err(io::Error::other)?;
    Ok(Some((message, descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FromZygote, ToZygote};
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    #[test]
    fn messages_arrive_whole_with_their_descriptors() {
        let (ours, theirs) = packets().unwrap();
        let files = ["one", "two"].map(|text| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            file
        });
        let fork = |name: &str| ToZygote::Fork { folder: name.into(), cgroup: None };
        send_packet(&ours, &fork("a"), &[files[0].as_fd(), files[1].as_fd()]).unwrap();
        send_packet(&ours, &fork("b"), &[]).unwrap();
        let (message, descriptors) = receive_packet::<ToZygote>(&theirs).unwrap().unwrap();
        assert_eq!(message, fork("a"));
        let texts = descriptors.into_iter().map(|descriptor| {
            let mut text = String::new();
            File::from(descriptor).read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["one", "two"]);
        let (message, descriptors) = receive_packet::<ToZygote>(&theirs).unwrap().unwrap();
        assert_eq!((message, descriptors.len()), (fork("b"), 0));

        let four = [files[0].as_fd(), files[0].as_fd(), files[0].as_fd(), files[0].as_fd()];
        assert!(send_packet(&ours, &fork("c"), &four).is_err());
        assert!(send_packet(&ours, &fork(&"x".repeat(MAX_PACKET_BYTES)), &[]).is_err());
        send_packet(&ours, &7_u64, &[]).unwrap();
        assert!(receive_packet::<FromZygote>(&theirs).is_err(), "no such message");
        drop(ours);
        assert!(receive_packet::<ToZygote>(&theirs).unwrap().is_none());
    }
}
