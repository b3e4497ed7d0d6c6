//! What a leader and one incarnation of an agent publish to each other: packets, sealed if the job is signed.

use super::link::Link;
use super::messages::{MessageError, Packet, decode_message, encode_message, publish};
use super::nats::Bus;
use super::seal::Seal;
use std::time::Duration;

/// Publishes packets to a peer, and opens those of the peer.
#[derive(Debug)]
pub struct Channel {
    /// The subject of the peer.
    subject: String,
    /// `None` if packets are not sealed.
    seal: Option<Seal>,
}

/// Why there is no packet in a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The peer does not make such packets.
    #[error(transparent)]
    Malformed(#[from] MessageError),
    /// Another client of the broker may have sent the message, which says nothing about the peer.
    #[error("the message is not from the peer, or is a copy of an earlier one")]
    Forged,
}

impl Channel {
    /// A channel to the peer with this subject. All packets are sealed if there is a seal.
    pub fn new(subject: String, seal: Option<Seal>) -> Self {
        Self { subject, seal }
    }

    /// The packet that the peer has sent. It is never [`Packet::Sealed`].
    ///
    /// # Errors
    /// If there is no packet of the peer in the message.
    pub fn open(&mut self, payload: &[u8]) -> Result<Packet, PacketError> {
        let packet = match &mut self.seal {
            None => decode_message(payload)?,
            Some(seal) => {
                let Ok(Packet::Sealed(sealed)) = decode_message(payload) else {
                    return Err(PacketError::Forged);
                };
                decode_message(&seal.open(sealed).ok_or(PacketError::Forged)?)?
            }
        };
        match packet {
            Packet::Sealed(_) => Err(PacketError::Forged),
            packet => Ok(packet),
        }
    }

    /// Publishes a packet. If it cannot be encoded, it is lost, as any message may be.
    pub fn publish(&self, bus: &Bus, packet: &Packet) {
        let Some(seal) = &self.seal else { return publish(bus, &self.subject, packet) };
        let encoded = encode_message(packet).ok();
        if let Some(sealed) = encoded.and_then(|packet| seal.seal(packet)) {
            publish(bus, &self.subject, &Packet::Sealed(sealed));
        }
    }

    /// Publishes the frames of a link that are due.
    pub fn publish_frames(&self, bus: &Bus, link: &mut Link, now: Duration) {
        for frame in link.poll(now) {
            self.publish(bus, &Packet::Frame(frame));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{LinkEnd, LinkKey};

    fn sealed_channel() -> (Seal, Channel) {
        let (leader, node) = (LinkKey::new().unwrap(), LinkKey::new().unwrap());
        let of_leader = leader.seal_with(node.name(), LinkEnd::Leader).unwrap();
        let of_node = node.seal_with(leader.name(), LinkEnd::Node).unwrap();
        (of_leader, Channel::new("to-leader".to_owned(), Some(of_node)))
    }

    fn sealed(seal: &Seal, packet: &[u8]) -> Vec<u8> {
        encode_message(&Packet::Sealed(seal.seal(packet.to_vec()).unwrap())).unwrap()
    }

    #[test]
    fn a_sealed_channel_accepts_only_sealed_packets() {
        let (leader, mut channel) = sealed_channel();
        let gone = encode_message(&Packet::Gone).unwrap();
        assert_eq!(channel.open(&gone), Err(PacketError::Forged));
        assert_eq!(channel.open(b"\xff"), Err(PacketError::Forged));
        let message = sealed(&leader, &gone);
        assert_eq!(channel.open(&message), Ok(Packet::Gone));
        assert_eq!(channel.open(&message), Err(PacketError::Forged), "a copy");
        let twice = sealed(&leader, &sealed(&leader, &gone));
        assert_eq!(channel.open(&twice), Err(PacketError::Forged));
        let wrong = channel.open(&sealed(&leader, b"\xff"));
        assert!(matches!(wrong, Err(PacketError::Malformed(_))), "{wrong:?}");
    }

    #[test]
    fn an_unsealed_channel_does_not_open_seals() {
        let (leader, _) = sealed_channel();
        let mut channel = Channel::new("to-leader".to_owned(), None);
        let gone = encode_message(&Packet::Gone).unwrap();
        assert_eq!(channel.open(&gone), Ok(Packet::Gone));
        assert_eq!(channel.open(&sealed(&leader, &gone)), Err(PacketError::Forged));
        assert!(matches!(channel.open(b"\xff"), Err(PacketError::Malformed(_))));
    }
}
