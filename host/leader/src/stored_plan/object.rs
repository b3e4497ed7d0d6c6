//! A part of a plan as bytes.

use crate::model::{MiniBatch, TableFormat};
use crate::protocol::{PROTOCOL_VERSION, PlanPosition};
use serde::{Deserialize, Serialize};

/// Consecutive mini-batches of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct PlanObject {
    /// How tables are read. Empty for file inputs, and in all objects but the first.
    pub(in super::super) tables: Vec<TableFormat>,
    pub(in super::super) batches: Vec<MiniBatch>,
    /// The position after these mini-batches.
    pub(in super::super) position: PlanPosition,
}

/// Why bytes are not a part of a plan. The text is a clause.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum PlanDamage {
    #[error("another version of Sandmill wrote it")]
    Version,
    #[error("it is not a part of a plan")]
    NotAPlan,
    #[error("it does not follow the part before it")]
    Gap,
}

impl PlanObject {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = PROTOCOL_VERSION.to_le_bytes().to_vec();
        // Plain data always encodes. If it did not, the next leader would plan again.
        bytes.extend(postcard::to_stdvec(self).unwrap_or_default());
        bytes
    }

    /// `planned`: how many mini-batches come before the object.
    pub(super) fn decode(bytes: &[u8], planned: u64) -> Result<Self, PlanDamage> {
        let (version, rest) = bytes.split_first_chunk().ok_or(PlanDamage::NotAPlan)?;
        if u32::from_le_bytes(*version) != PROTOCOL_VERSION {
            return Err(PlanDamage::Version);
        }
        let object: Self = match postcard::take_from_bytes(rest) {
            Ok((object, [])) => object,
            _ => return Err(PlanDamage::NotAPlan),
        };
        let follows = (planned..).zip(&object.batches).all(|(id, batch)| batch.id.0 == id);
        let end = planned + object.batches.len() as u64;
        if !follows || object.position.mini_batches != end {
            return Err(PlanDamage::Gap);
        }
        Ok(object)
    }
}
