//! Seals the packets between a leader and one incarnation of an agent: only these two can read them, and can make
//! packets that the other one accepts. The leader of a signed job and its agents seal all packets.
//!
//! Each end has a [`LinkKey`], an X25519 key. The end's name is its public key, so only the process that has chosen
//! a name can use it. A signer vouches for the name of the leader, because the signature of an offer covers it.
//! Both ends compute the same secret, and from it a key for each direction.

use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::traits::IsIdentity;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Separates the keys of links from those of other protocols and versions.
const DOMAIN: &[u8] = b"sandmill link, version 1";

/// The system has no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system returns no random bytes for a key")]
pub struct NoRandomBytes;

fn random_bytes() -> Result<[u8; 32], NoRandomBytes> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomBytes)?;
    Ok(bytes)
}

/// 64 hexadecimal digits that other processes cannot guess.
///
/// # Errors
/// If the system has no random bytes.
pub fn secret_text() -> Result<String, NoRandomBytes> {
    random_bytes().map(hex::encode)
}

/// The key of a leader, or of an agent's part in a job.
pub struct LinkKey {
    secret: [u8; 32],
    name: String,
    /// The number of the last packet to any peer. No number is used twice with a key, even if a peer is given up and
    /// comes back.
    last_number: Arc<AtomicU64>,
}

impl fmt::Debug for LinkKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "LinkKey({})", self.name)
    }
}

/// Which end of a link this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The leader.
    Leader,
    /// The agent's part in the job.
    Node,
}

impl LinkKey {
    /// A new key.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn new() -> Result<Self, NoRandomBytes> {
        let secret = random_bytes()?;
        let name = hex::encode(MontgomeryPoint::mul_base_clamped(secret).to_bytes());
        Ok(Self { secret, name, last_number: Arc::default() })
    }

    /// The name of the process that has this key: 64 hexadecimal digits.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The seal of the packets to and from the peer with this name. `end`: which end this process is. `None` if the
    /// name is not that of a key.
    pub fn seal_with(&self, peer: &str, end: LinkEnd) -> Option<Seal> {
        let public = public_key(peer)?;
        let shared = MontgomeryPoint(public).mul_clamped(self.secret);
        // A peer with such a key would have chosen the secret alone.
        if shared.is_identity() {
            return None;
        }
        let secret = Salt::new(HKDF_SHA256, DOMAIN).extract(shared.as_bytes());
        let (leader, node) = match end {
            LinkEnd::Leader => (self.name.as_str(), peer),
            LinkEnd::Node => (peer, self.name.as_str()),
        };
        let key = |direction: &str| direction_key(&secret, leader, node, direction);
        let to_node = key("to node")?;
        let to_leader = key("to leader")?;
        let (sending, receiving) = match end {
            LinkEnd::Leader => (to_node, to_leader),
            LinkEnd::Node => (to_leader, to_node),
        };
        Some(Seal { sending, receiving, last_number: self.last_number.clone(), received: 0 })
    }
}

/// The public key whose name this is. Each key has one name only.
pub(crate) fn public_key(name: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    let is_lower_case = name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (is_lower_case && hex::decode_to_slice(name, &mut key).is_ok()).then_some(key)
}

/// The key for the packets in one direction. The names have a fixed length.
fn direction_key(secret: &Prk, leader: &str, node: &str, direction: &str) -> Option<LessSafeKey> {
    let parts = [leader.as_bytes(), node.as_bytes(), direction.as_bytes()];
    let key = secret.expand(&parts, &CHACHA20_POLY1305).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

/// A sealed packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// From 1. Later packets have higher numbers.
    pub(crate) number: u64,
    /// The encrypted packet, and its tag.
    #[serde(with = "crate::link::byte_string")]
    pub(crate) bytes: Vec<u8>,
}

/// The keys for the packets of one link.
pub struct Seal {
    sending: LessSafeKey,
    receiving: LessSafeKey,
    last_number: Arc<AtomicU64>,
    /// The number of the last packet that was received.
    received: u64,
}

impl fmt::Debug for Seal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Seal(received: {})", self.received)
    }
}

impl Seal {
    /// Seals a packet. `None` if the packet is too long for the cipher, which no packet is.
    pub fn seal(&self, mut packet: Vec<u8>) -> Option<Sealed> {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed).checked_add(1)?;
        self.sending.seal_in_place_append_tag(nonce(number), Aad::empty(), &mut packet).ok()?;
        Some(Sealed { number, bytes: packet })
    }

    /// The packet in a seal. `None` if the peer has not made it for this process, or if it is not later than all
    /// packets that were received: then it is a copy, or other packets have overtaken it. The link sends again what
    /// was lost.
    pub fn open(&mut self, sealed: Sealed) -> Option<Vec<u8>> {
        let Sealed { number, mut bytes } = sealed;
        if number <= self.received {
            return None;
        }
        let opened = self.receiving.open_in_place(nonce(number), Aad::empty(), &mut bytes).ok()?;
        let length = opened.len();
        bytes.truncate(length);
        self.received = number;
        Some(bytes)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seals of both ends of a link.
    fn pair() -> (Seal, Seal) {
        let (leader, node) = (LinkKey::new().unwrap(), LinkKey::new().unwrap());
        let of_leader = leader.seal_with(node.name(), LinkEnd::Leader).unwrap();
        let of_node = node.seal_with(leader.name(), LinkEnd::Node).unwrap();
        (of_leader, of_node)
    }

    #[test]
    fn only_the_peer_opens_a_packet() {
        let (leader, mut node) = pair();
        let sealed = leader.seal(b"packet".to_vec()).unwrap();
        assert!(!sealed.bytes.windows(6).any(|part| part == b"packet"), "it is not readable");
        let (mut other_leader, mut other_node) = pair();
        assert_eq!(other_node.open(sealed.clone()), None);
        assert_eq!(other_leader.open(sealed.clone()), None);
        let mut leader = leader;
        assert_eq!(leader.open(sealed.clone()), None, "it does not come back to its sender");
        assert_eq!(node.open(sealed), Some(b"packet".to_vec()));
        let answer = node.seal(Vec::new()).unwrap();
        assert_eq!(leader.open(answer), Some(Vec::new()));
    }

    #[test]
    fn a_packet_is_opened_once_and_in_order() {
        let (leader, mut node) = pair();
        let [first, second, third] = [1, 2, 3].map(|byte| leader.seal(vec![byte]).unwrap());
        assert_eq!(node.open(second.clone()), Some(vec![2]));
        assert_eq!(node.open(second), None, "a copy");
        assert_eq!(node.open(first), None, "an earlier packet");
        assert_eq!(node.open(third), Some(vec![3]));
    }

    #[test]
    fn a_changed_packet_is_not_opened() {
        let (leader, mut node) = pair();
        let sealed = leader.seal(b"packet".to_vec()).unwrap();
        for index in 0..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[index] ^= 1;
            assert_eq!(node.open(changed), None, "byte {index}");
        }
        for bytes in [&sealed.bytes[1..], &sealed.bytes[..15], &[]] {
            assert_eq!(node.open(Sealed { number: sealed.number, bytes: bytes.to_vec() }), None);
        }
        assert_eq!(node.open(Sealed { number: 7, ..sealed.clone() }), None);
        // A refused packet changes nothing.
        assert_eq!(node.open(sealed), Some(b"packet".to_vec()));
    }

    /// If a leader gives up an agent that comes back, it uses the same keys. So the numbers go on.
    #[test]
    fn no_number_is_used_twice_with_a_key() {
        let (leader, node) = (LinkKey::new().unwrap(), LinkKey::new().unwrap());
        let mut at_node = node.seal_with(leader.name(), LinkEnd::Node).unwrap();
        let mut numbers = Vec::new();
        for _ in 0..3 {
            let seal = leader.seal_with(node.name(), LinkEnd::Leader).unwrap();
            let sealed = seal.seal(b"x".to_vec()).unwrap();
            numbers.push(sealed.number);
            assert!(at_node.open(sealed).is_some());
        }
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn other_names_are_refused() {
        let key = LinkKey::new().unwrap();
        let good = key.name().to_owned();
        assert!(key.seal_with(&good, LinkEnd::Leader).is_some());
        let weak = "0".repeat(64);
        for name in ["", "echo", &good[1..], &format!("{good}0"), &"A".repeat(64), &weak] {
            assert!(key.seal_with(name, LinkEnd::Leader).is_none(), "{name}");
        }
    }

    /// Another implementation agrees on the same secret.
    #[test]
    fn the_agreement_is_x25519() {
        use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
        let key = LinkKey::new().unwrap();
        let peer = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).unwrap();
        let peer_public = peer.compute_public_key().unwrap().as_ref().try_into().unwrap();
        let own_public = UnparsedPublicKey::new(&X25519, public_key(key.name()).unwrap());
        let theirs = agree_ephemeral(peer, &own_public, <[u8]>::to_vec).unwrap();
        assert_eq!(MontgomeryPoint(peer_public).mul_clamped(key.secret).as_bytes()[..], theirs);
    }
}
