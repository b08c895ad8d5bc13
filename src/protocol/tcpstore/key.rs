//! What a key of the store is for, by its name and its value.

use crate::protocol::gloo::parse_blob;
use crate::protocol::nccl::{UNIQUE_ID_BYTES, parse_unique_id};

/// What the key of an elastic job's state begins with. Its value grows with the job: some 80 bytes an agent.
pub(super) const ELASTIC_STATE: &[u8] = b"/torch.rendezvous.";

/// What a key is for. Group prefixes (`/default_pg/0//cuda//…`) do not matter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Purpose {
    /// `init/`: how many workers joined this store.
    WorkerCount,
    /// `store_based_barrier_key:…`: barrier when a process group is made.
    GroupBarrier,
    /// An `ncclUniqueId`: names the bootstrap root of a communicator.
    NcclUniqueId,
    /// `NCCLABORTEDCOMM:…`: a rank aborted a communicator.
    NcclAborted,
    /// `SEQ_NUM_STORE_KEY`: the first sequence number of a group.
    SequenceNumber,
    /// `…_trace_start`, `…_trace_end`: NCCL desync debugging.
    DesyncTrace,
    /// `exception_dump`, `timeout_dump`: set by the first rank that fails, polled by all.
    ExceptionDump,
    /// `remote_error:…`: an NCCL error told to the others.
    RemoteError,
    /// A Gloo address blob: where a rank listens for its pairs.
    GlooAddress,
    /// `rank_<n>` with a host name: Gloo counts local ranks.
    GlooHost,
    /// Rendezvous of symmetric memory, and its barrier.
    SymmetricMemory,
    /// Handshake of intra-node communication.
    IntraNode,
    /// TensorPipe RPC.
    Rpc,
    /// `rank<n>` with a URL: the debug server of a rank.
    DebugServer,
    /// `torch.rendezvous.<run id>`: the state of an elastic job.
    ElasticState,
    /// `…/MASTER_ADDR`: the host of the workers' own store.
    MasterAddress,
    /// `…/MASTER_PORT`: the port of the workers' own store.
    MasterPort,
    /// `torchelastic/role_info…`: roles of the agents.
    RoleInfo,
    /// `torchelastic/assigned_ranks/…`: ranks of the agents' workers.
    AssignedRanks,
    /// `torchelastic/agent/terminal_state…`: the agents' exit barrier.
    TerminalState,
    /// `num_members`, `last_member`: who joined a barrier.
    Membership,
    /// `…heartbeat…`.
    Heartbeat,
    /// Anything else under a process group's prefix.
    PrefixStore,
}

impl Purpose {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::WorkerCount => "worker count",
            Purpose::GroupBarrier => "group barrier",
            Purpose::NcclUniqueId => "ncclUniqueId",
            Purpose::NcclAborted => "NCCL communicator aborted",
            Purpose::SequenceNumber => "sequence number",
            Purpose::DesyncTrace => "NCCL desync trace",
            Purpose::ExceptionDump => "exception dump flag",
            Purpose::RemoteError => "remote error",
            Purpose::GlooAddress => "Gloo address",
            Purpose::GlooHost => "Gloo host name",
            Purpose::SymmetricMemory => "symmetric memory",
            Purpose::IntraNode => "intra-node handshake",
            Purpose::Rpc => "RPC",
            Purpose::DebugServer => "debug server",
            Purpose::ElasticState => "elastic rendezvous state",
            Purpose::MasterAddress => "MASTER_ADDR",
            Purpose::MasterPort => "MASTER_PORT",
            Purpose::RoleInfo => "role info",
            Purpose::AssignedRanks => "assigned ranks",
            Purpose::TerminalState => "terminal state",
            Purpose::Membership => "membership",
            Purpose::Heartbeat => "heartbeat",
            Purpose::PrefixStore => "process group",
        }
    }
}

/// What `key` (as on the wire, with its `/`) is for. With the value at hand ids and addresses are told by content:
/// `value` must then be whole. `None`: a key of the application's own.
pub fn purpose(key: &[u8], value: Option<&[u8]>) -> Option<Purpose> {
    if key == b"init/" {
        return Some(Purpose::WorkerCount);
    }
    let path = std::str::from_utf8(key.strip_prefix(b"/")?).ok()?;
    let last = path.rsplit('/').next().unwrap_or(path);
    let has = |part: &str| path.contains(part);
    if let Some(value) = value
        && let Some(purpose) = by_value(path, last, value)
    {
        return Some(purpose);
    }
    let named = match last {
        "MASTER_ADDR" => Purpose::MasterAddress,
        "MASTER_PORT" => Purpose::MasterPort,
        "exception_dump" | "timeout_dump" => Purpose::ExceptionDump,
        "SEQ_NUM_STORE_KEY" => Purpose::SequenceNumber,
        _ if has("torchelastic/agent/terminal_state") => Purpose::TerminalState,
        _ if has("torchelastic/role_info") => Purpose::RoleInfo,
        _ if has("torchelastic/assigned_ranks") => Purpose::AssignedRanks,
        "num_members" | "last_member" => Purpose::Membership,
        _ if has("store_based_barrier_key:") => Purpose::GroupBarrier,
        _ if last.starts_with("NCCLABORTEDCOMM:") => Purpose::NcclAborted,
        _ if has("remote_error:") => Purpose::RemoteError,
        _ if last.ends_with("_trace_start") || last.ends_with("_trace_end") => Purpose::DesyncTrace,
        _ if has("UniqueNCCLID:") || has("nccl_storekey_") => Purpose::NcclUniqueId,
        _ if has("SymmetricMemory/") => Purpose::SymmetricMemory,
        _ if has("IntraNodeComm") => Purpose::IntraNode,
        _ if has("rpc_prefix_") => Purpose::Rpc,
        _ if has("heartbeat") => Purpose::Heartbeat,
        _ if path.starts_with("torch.rendezvous.") && !has("/") => Purpose::ElasticState,
        _ if last.strip_prefix("rank_").is_some_and(is_number) => Purpose::GlooHost,
        _ if path.starts_with("default_pg/") || path.split('/').next().is_some_and(is_number) => Purpose::PrefixStore,
        _ => return None,
    };
    Some(named)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// `3`, or `0:1` for a pair of ranks.
fn is_rank_or_pair(text: &str) -> bool {
    match text.split_once(':') {
        Some((a, b)) => is_number(a) && is_number(b),
        None => is_number(text),
    }
}

fn by_value(path: &str, last: &str, value: &[u8]) -> Option<Purpose> {
    let numbered = is_rank_or_pair(last);
    if numbered && !path.contains("SymmetricMemory/") && parse_blob(value).is_some() {
        // Gloo's blob for two ranks in PyTorch 1.4 is 128 bytes too, and begins as ids before NCCL 2.16.2 do.
        // Its unused bytes are stack memory, an id's are zero; on a tie the group's backend name decides.
        let ambiguous = parse_unique_id(value).is_some();
        return Some(if ambiguous && !path.contains("cpu") { Purpose::NcclUniqueId } else { Purpose::GlooAddress });
    }
    let id_key =
        numbered || path.contains("UniqueNCCLID") || path.contains("nccl_storekey") || path.contains("unique_id");
    if value.len() == UNIQUE_ID_BYTES && id_key && !path.contains("SymmetricMemory/") {
        return Some(Purpose::NcclUniqueId);
    }
    let rank = last.strip_prefix("rank").is_some_and(is_number);
    (rank && value.starts_with(b"http://")).then_some(Purpose::DebugServer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_what_they_are_for() {
        for (key, wanted) in [
            ("init/", Some(Purpose::WorkerCount)),
            ("/default_pg/0//cpu//SEQ_NUM_STORE_KEY", Some(Purpose::SequenceNumber)),
            ("/store_based_barrier_key:1", Some(Purpose::GroupBarrier)),
            ("/default_pg/store_based_barrier_key:1", Some(Purpose::GroupBarrier)),
            ("/torch.rendezvous.exp42", Some(Purpose::ElasticState)),
            ("/torch.rendezvous.exp42.0/MASTER_PORT", Some(Purpose::MasterPort)),
            ("/torch.rendezvous.exp42.0/torchelastic/role_info0", Some(Purpose::RoleInfo)),
            ("/torch.rendezvous.exp42.0/torchelastic/role_info/0", Some(Purpose::RoleInfo)),
            ("/torch.rendezvous.exp42.0/torchelastic/agent/terminal_state/num_members", Some(Purpose::TerminalState)),
            ("/_tcp_store/num_members", Some(Purpose::Membership)),
            ("/exception_dump", Some(Purpose::ExceptionDump)),
            ("/default_pg/0/0/rank_1", Some(Purpose::GlooHost)),
            ("/default_pg/0//cuda//0", Some(Purpose::PrefixStore)),
            ("/counter", None),
            ("counter", None),
        ] {
            assert_eq!(purpose(key.as_bytes(), None), wanted, "{key}");
        }
        assert_eq!(purpose(b"/default_pg/0//cuda//0", Some(&[7; 128])), Some(Purpose::NcclUniqueId));
        assert_eq!(purpose(b"/rank3", Some(b"http://h:1")), Some(Purpose::DebugServer));
    }
}
