//! The connection of an agent to one leader.

use super::agent_error::AgentError;
use super::agent_options::AgentOptions;
use crate::bus::{Bus, Channel, LinkEnd, LinkKey, Offer, to_leader, to_node};
use crate::model::random_name;

/// The connection of a new incarnation of an agent.
pub(super) struct Connected {
    pub(super) bus: Bus,
    /// The channel to the leader.
    pub(super) channel: Channel,
    pub(super) incarnation: String,
}

/// Connects a new incarnation to the leader of this offer.
pub(super) fn connect_to(offer: &Offer, options: &AgentOptions) -> Result<Connected, AgentError> {
    let Offer { leader, signature, .. } = offer;
    let (incarnation, seal) = match signature {
        None => (random_name(), None),
        Some(_) => {
            let key = LinkKey::new()?;
            let seal = key.seal_with(leader, LinkEnd::Node).ok_or(AgentError::LeaderName)?;
            (key.name().to_owned(), Some(seal))
        }
    };
    let channel = Channel::new(to_leader(leader, &incarnation), seal);
    let bus = Bus::connect(&options.broker, &format!("node-{incarnation}"))?;
    bus.subscribe(to_node(&incarnation))?;
    Ok(Connected { bus, channel, incarnation })
}
