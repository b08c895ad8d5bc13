//! What the rules of stores mean.

use crate::finding::{Rule, rules};
use crate::vocabulary::Severity;

const CLOSE_IT: &str = "Keep strangers off the port: allow it from the job's own hosts only (nft/iptables or a network \
policy). Upgrade to PyTorch 2.4 or later with the libuv store (the default there), which refuses such lengths. Until \
then exclude rendezvous ports from version scans.";

rules! {
    /// The rules of stores, by id.
    StoreRule

    ConnectAndClose {
        id: "connect-and-close",
        severity: Severity::Info,
        title: "a connection that sent nothing",
        meaning: "Somebody connected to a store and closed without a byte: a connect scan, a load balancer's or \
kubelet's health check. TCPStore servers of every release tolerate it.",
        remedy: "Nothing to do for a store. (NCCL bootstrap roots before 2.27.3 do not tolerate it.)",
    }
    ConnectScan {
        id: "connect-scan",
        severity: Severity::Info,
        title: "connections without a byte, from somebody who tries many ports or hosts",
        meaning: "The source connected to this listener and to many other ports or hosts, and sent nothing: a connect scan. Stores \
tolerate it; NCCL bootstrap roots before 2.27.3 do not.",
        remedy: "See whether the same source sent data afterwards; exclude rendezvous and NCCL ports from scans.",
    }
    DecodeContradiction {
        id: "decode-contradiction",
        severity: Severity::Warning,
        title: "a store connection that stops making sense",
        meaning: "Well-formed requests of a store client are followed, on the same connection, by bytes that are no \
request in its dialect. Either the capture lost bytes, or the client is broken, or somebody injects data.",
        remedy: "Look at the packet; if the capture has gaps there, take a new one with a larger buffer (tcpdump -B).",
    }
    ForeignProtocol {
        id: "foreign-protocol",
        severity: Severity::Notice,
        title: "another protocol on a store's port",
        meaning: "The bytes are those of another protocol (HTTP, TLS, RDP, …) and the server closes the connection or \
ignores it. Harmless by itself; it shows that strangers reach the port, and the next probe of the same scan may not be \
harmless.",
        remedy: CLOSE_IT,
    }
    ForeignServer {
        id: "foreign-server",
        severity: Severity::Notice,
        title: "another service where a store was looked for",
        meaning: "What listens here answers as no store does: it speaks first, answers a request before it is complete, with \
another nonce, or with a length that no store sends. A PyTorch client that takes it for the store reads its bytes as lengths \
and may ask for as much memory itself; what others send it is not judged as sent to a store.",
        remedy: "Look at MASTER_ADDR and MASTER_PORT of the job, and at what else listens there (ss -ltnp).",
    }
    ListenerDied {
        id: "listener-died",
        severity: Severity::Critical,
        title: "a listener that accepted connections and then was gone",
        meaning: "The listener had accepted connections; then its open connections were closed from its side within a \
moment and later attempts were refused. That is what the death of the process looks like from outside. Tied to a stray \
when the last thing it was sent is a claim it never answered.",
        remedy: "Look for the process's end in the host's kernel log (dmesg -T | grep -i killed) and join it with --oom.",
    }
    ListenerSilent {
        id: "listener-silent",
        severity: Severity::Warning,
        title: "a listener that stopped answering",
        meaning: "After the claim the listener sent nothing at all, on no connection. Stores with the poll backend have \
one thread: while it fills the memory it was told to, or waits for bytes that never come, every rank waits too.",
        remedy: CLOSE_IT,
    }
    MessageCutOff {
        id: "message-cut-off",
        severity: Severity::Notice,
        title: "a message that ended before its declared length",
        meaning: "The stream ended inside a message: it declared D bytes and delivered d. A store with the poll backend \
waits for the rest, and serves nobody, until the sender closes.",
        remedy: "If the sender is a training process, it died while it was sending: look at its host first.",
    }
    MissingMagic {
        id: "missing-magic",
        severity: Severity::Notice,
        title: "a client that did not validate",
        meaning: "The store asks for a magic number first (PyTorch 2.2 and later) and this client did not send it. The \
poll backend closes the connection, the libuv backend ignores it and keeps it open.",
        remedy: "A client of PyTorch 2.1 or older cannot join such a store: align the versions. Anything else is a \
stranger.",
    }
    OverlapConflict {
        id: "overlap-conflict",
        severity: Severity::Warning,
        title: "overlapping segments with different bytes",
        meaning: "Two segments claim the same bytes of a stream and differ. The first copy is decoded and both are kept. \
No healthy stack does this: it is injection, a broken middlebox, or two captures' traffic mixed up.",
        remedy: "Compare both versions with the target's own capture.",
    }
    SpoofedSegment {
        id: "spoofed-segment",
        severity: Severity::Notice,
        title: "bytes outside any connection",
        meaning: "A segment to the store carries bytes, but no handshake was finished and nobody acknowledged it: the kernel of \
the host drops it, and no process reads it. Its source address proves nothing, for anybody can forge it.",
        remedy: "Nothing happened to the store. Whoever it seems to come from need not have sent it: look at the link layer's \
addresses and at what filters forged sources (BCP 38).",
    }
    StoreClaim {
        id: "store-claim",
        severity: Severity::Critical,
        title: "a declared length or count that the server honours",
        meaning: "The server reads these bytes as a request and allocates what it declares, before any of it has \
arrived. The memory is written, so it is resident: the host runs out of memory within seconds to minutes, unless the \
kernel refuses the allocation.",
        remedy: CLOSE_IT,
    }
    StoreClaimRefused {
        id: "store-claim-refused",
        severity: Severity::Warning,
        title: "a claim that the kernel refused",
        meaning: "The same bytes as a killing claim, but the connection was reset within a moment: the allocation \
failed (vm.overcommit_memory=0 with less memory than the claim, or =2) and the server lives. On a host with more \
memory, or with overcommit 1, it would not.",
        remedy: CLOSE_IT,
    }
    StoreLesserClaim {
        id: "store-lesser-claim",
        severity: Severity::Warning,
        title: "a claim of some memory that stays below the host's",
        meaning: "The declared bytes (64 MiB or more) become resident until the connection ends, and the store's only \
thread waits for them meanwhile.",
        remedy: CLOSE_IT,
    }
    StoreReplyLength {
        id: "store-reply-length",
        severity: Severity::Warning,
        title: "an answer of a store that declares what no store sends",
        meaning: "The server's answer holds a length, count or code that no store sends. Clients of every release take it as it \
is: a length is allocated before its bytes come, and a client that waits for them waits for ever. The client is healthy.",
        remedy: "Look at the server, and at what stands between the two (a proxy, another service at the same address): no \
release of PyTorch answers so.",
    }
    StoreStalled {
        id: "store-stalled",
        severity: Severity::Warning,
        title: "an incomplete request that holds the store",
        meaning: "The bytes are the beginning of a request. A store with the poll backend waits for the rest on its \
only thread: no rank is served until the sender closes.",
        remedy: CLOSE_IT,
    }
    SynScan {
        id: "syn-scan",
        severity: Severity::Info,
        title: "half-open connections",
        meaning: "SYNs whose handshake was never finished, from one source: a SYN scan. It never reaches the process.",
        remedy: "Nothing to do by itself; see whether the same source sent data afterwards.",
    }
    UnknownQueryType {
        id: "unknown-query-type",
        severity: Severity::Notice,
        title: "a first byte that is no query type",
        meaning: "The server reads the first byte as a query type, knows none with that number, and closes the \
connection.",
        remedy: CLOSE_IT,
    }
    VersionMismatch {
        id: "version-mismatch",
        severity: Severity::Critical,
        title: "a PyTorch client of a release that this store cannot read",
        meaning: "The client is no stranger: it is PyTorch of another release. A store of 2.1 or older reads the \
validate magic of a newer client as a SET whose key length is made of the magic and the next bytes: terabytes.",
        remedy: "Use the same PyTorch release on all nodes of a job, the rank-0 node included.",
    }
    WrongMagic {
        id: "wrong-magic",
        severity: Severity::Notice,
        title: "a validate request with another magic number",
        meaning: "The first byte is VALIDATE (0) and the next four are not the magic. The poll backend closes the \
connection; the libuv backend keeps it open and silent.",
        remedy: CLOSE_IT,
    }
}
