//! What a listener of NCCL is for.

/// The role of a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Where ranks check in.
    Root,
    /// Where the root answers a rank.
    Reply,
    /// Where the rank before connects (up to 2.22 also the peer listener).
    Ring,
    /// Where any rank connects, at start and much later.
    Peer,
    /// The proxy service.
    Proxy,
    /// NET/Socket or NET/IB.
    Net,
    /// The RAS network, or its text service.
    Ras,
}

impl Role {
    /// As the report document spells it.
    pub fn text(self) -> &'static str {
        match self {
            Role::Root => "bootstrap-root",
            Role::Reply => "reply",
            Role::Ring => "ring",
            Role::Peer => "peer",
            Role::Proxy => "proxy",
            Role::Net => "net",
            Role::Ras => "ras",
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Role::Root => "bootstrap root",
            Role::Reply => "reply listener of a rank",
            Role::Ring => "ring listener of a rank",
            Role::Peer => "peer listener of a rank",
            Role::Proxy => "proxy service of a rank",
            Role::Net => "NET/Socket listener",
            Role::Ras => "RAS listener",
        }
    }
}
