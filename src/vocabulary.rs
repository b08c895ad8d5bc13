//! Words that several rooms and the report document share. Each has one spelling, used in JSON and in text alike.

use std::fmt;

/// Declares an enumeration whose variants are words of the document.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub enum $name {
            $($(#[$vmeta])* $variant),+
        }

        impl $name {
            /// Every word, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word as the document spells it.
            pub fn text(self) -> &'static str {
                match self {
                    $($name::$variant => $text),+
                }
            }

            /// The variant that is spelled `text`, or `None`.
            pub fn from_text(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.text() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.text())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
                Self::from_text(&text).ok_or_else(|| {
                    let all: Vec<&str> = Self::ALL.iter().map(|w| w.text()).collect();
                    serde::de::Error::custom(format!("one of {} was required, {text:?} was there", all.join(", ")))
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.text())
            }
        }
    };
}

words! {
    /// What an input turned out to be.
    InputKind {
        /// A packet capture.
        #[default]
        Capture = "capture",
        /// A log with (or without) OOM lines.
        Log = "log",
        /// Names and addresses of hosts.
        Hosts = "hosts",
        /// `kubectl get … -o json`.
        Kubernetes = "kubernetes",
        /// Facts about hosts: memory, overcommit, clocks.
        Facts = "facts",
    }
}

words! {
    /// How much of the bytes that a finding flags their receiver acknowledged.
    Acknowledged {
        /// All of them.
        All = "all",
        /// The first of them.
        Part = "part",
        /// None, though the capture holds what the receiver sent.
        Nothing = "none",
        /// The capture holds no packet of the receiver.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// What happened to a job at one moment, as its stores tell.
    JobEvent {
        /// Somebody joined.
        #[default]
        Joined = "joined",
        /// All participants of a round were there.
        Complete = "complete",
        /// The last sign of life of somebody whose keep-alives (or other regular signs) then stayed away.
        FellSilent = "fell-silent",
        /// The others took an agent out of the rendezvous.
        Removed = "removed",
        /// An agent's side closed its connection.
        Disconnected = "disconnected",
        /// An agent reached the exit barrier: its workers ended.
        ExitBarrier = "exit-barrier",
        /// The rendezvous was closed.
        Closed = "closed",
        /// A process group asked all ranks to dump what they were doing.
        DumpRequested = "dump-requested",
        /// A rank found that request.
        DumpSeen = "dump-seen",
        /// A rank aborted an NCCL communicator.
        Aborted = "communicator-aborted",
        /// A rank told the others of an NCCL error.
        RemoteError = "remote-error",
    }
}

words! {
    /// By what somebody shows regularly that it lives.
    SignKind {
        /// An elastic agent's heartbeat in the state of its job.
        #[default]
        KeepAlive = "keep-alive",
        /// A rank's monitor thread asks for the dump flag.
        DumpPoll = "dump-flag-poll",
        /// A key named for heartbeats is written.
        HeartbeatKey = "heartbeat-key",
    }
}

words! {
    /// How much of the time before a host's kill its captures hold.
    CoverageLevel {
        /// No capture holds this host's traffic in that time.
        #[default]
        NotObserved = "not-observed",
        /// Some of it, or with drops, cuts or gaps.
        Partial = "partial",
        /// All of it.
        Observed = "observed",
    }
}

words! {
    /// What a listener speaks.
    Protocol {
        /// Nothing that is known.
        #[default]
        Unknown = "unknown",
        /// PyTorch's TCPStore.
        Tcpstore = "tcpstore",
        /// NCCL's bootstrap and its socket transports.
        Nccl = "nccl",
        /// Gloo's TCP pairs.
        Gloo = "gloo",
        /// TensorPipe, the transport of PyTorch's RPC.
        Tensorpipe = "tensorpipe",
        /// An MPI: its launcher or its ranks.
        Mpi = "mpi",
        /// Slurm: its daemons, and what srun opens.
        Slurm = "slurm",
        /// ZeroMQ.
        Zmq = "zmq",
        /// gRPC: JAX's coordinator and others.
        Grpc = "grpc",
        /// Ray.
        Ray = "ray",
        /// Dask.
        Dask = "dask",
        /// etcd.
        Etcd = "etcd",
        /// Redis.
        Redis = "redis",
        /// UCX.
        Ucx = "ucx",
        /// HTTP: metrics, dashboards.
        Http = "http",
        /// SSH.
        Ssh = "ssh",
    }
}

words! {
    /// What a listener is for.
    Role {
        /// A TCPStore server.
        #[default]
        Store = "store",
        /// An NCCL bootstrap root.
        BootstrapRoot = "bootstrap-root",
        /// Where a rank waits for the root's reply.
        Reply = "reply",
        /// Where a rank waits for its neighbour in the bootstrap ring.
        Ring = "ring",
        /// Where a rank takes bootstrap messages of any other rank.
        Peer = "peer",
        /// An NCCL proxy thread.
        Proxy = "proxy",
        /// NCCL's NET/Socket transport.
        Net = "net",
        /// NCCL's RAS subsystem.
        Ras = "ras",
        /// A Gloo pair.
        Pair = "pair",
        /// Calls of PyTorch's RPC.
        Rpc = "rpc",
        /// A launcher or daemon that its own processes report to.
        Control = "control",
        /// Open MPI's byte transfer layer.
        Btl = "btl",
        /// Open MPI's out-of-band messages.
        Oob = "oob",
        /// Standard input and output of a job.
        Io = "io",
    }
}

words! {
    /// How bad a finding is; a later one is worse.
    Severity {
        /// Inventory.
        #[default]
        Info = "info",
        /// Harmless here, but it does not belong on this network.
        Notice = "notice",
        /// Harm that was refused, or lesser harm.
        Warning = "warning",
        /// Memory claimed and honoured, or a death tied to a stray.
        Critical = "critical",
    }
}

words! {
    /// What a server does with a message.
    Outcome {
        /// Not known for this server.
        #[default]
        Unknown = "unknown",
        /// It answers.
        Replies = "replies",
        /// It keeps the connection and waits for more.
        Waits = "waits",
        /// It closes the connection.
        Closes = "closes",
        /// It asks the kernel for memory and fills it.
        Allocates = "allocates",
        /// The process ends.
        Dies = "dies",
        /// It loops without progress.
        Spins = "spins",
    }
}

words! {
    /// Who killed the process.
    OomKind {
        /// The kernel, for want of memory of the host.
        #[default]
        Host = "host",
        /// The kernel, at the limit of a memory cgroup.
        Cgroup = "cgroup",
        /// A daemon: systemd-oomd, earlyoom, the kubelet, …
        Userspace = "userspace",
        /// No kill: the accelerator's memory ran out.
        Gpu = "gpu",
    }
}

words! {
    /// Who owned the killed process.
    WorkloadKind {
        /// A Slurm job or step.
        #[default]
        Slurm = "slurm",
        /// A Kubernetes pod.
        Pod = "pod",
        /// A systemd unit.
        Unit = "unit",
        /// A container outside Kubernetes.
        Container = "container",
        /// A job of PBS or LSF.
        Job = "job",
    }
}

words! {
    /// What an incident is made of.
    IncidentKind {
        /// Kills for want of memory.
        #[default]
        Oom = "oom",
        /// A communicator that never came up.
        NcclInit = "nccl-init",
        /// A communicator split that failed.
        NcclSplit = "nccl-split",
        /// A Gloo process group whose pair a stranger took.
        GlooGroup = "gloo-group",
        /// A listener that died with no kill in any log.
        ListenerDeath = "listener-death",
    }
}

words! {
    /// Whether an incident took several hosts.
    Scope {
        /// One host.
        #[default]
        SingleHost = "single-host",
        /// Several hosts within the window.
        Synchronized = "synchronized",
    }
}

words! {
    /// How sure the join of trigger and failure is; a later one is surer.
    Verdict {
        /// No trigger was found, or nobody was watching.
        #[default]
        Unexplained = "unexplained",
        /// Times fit, little else does.
        Possible = "possible",
        /// It fits, but an assumption bears part of it.
        Probable = "probable",
        /// Independent facts fit.
        Confirmed = "confirmed",
    }
}

words! {
    /// What set an incident off.
    Cause {
        /// Not known.
        #[default]
        Unknown = "unknown",
        /// A port or version scan.
        Scan = "scan",
        /// Client and server of releases that do not fit.
        VersionMismatch = "version-mismatch",
        /// A client of some other protocol.
        ForeignClient = "foreign-client",
        /// Ranks of a launch that disagrees with itself.
        LaunchMismatch = "launch-mismatch",
    }
}

impl IncidentKind {
    /// What a column of its failures is called.
    pub fn failure(self) -> &'static str {
        match self {
            IncidentKind::Oom => "OOM kill",
            _ => "Failure",
        }
    }

    /// What its trigger led to.
    pub fn gone(self) -> &'static str {
        match self {
            IncidentKind::NcclInit => "root gone",
            IncidentKind::NcclSplit => "split failed",
            IncidentKind::GlooGroup => "pair taken",
            _ => "listener gone",
        }
    }
}

/// How bad what is told under `kind` is, by its document: what it says, else critical for an incident with a trigger,
/// else a warning.
pub(crate) fn severity_of(kind: &str, document: &serde_json::Value) -> Severity {
    use serde_json::Value;
    let said = document.get("severity").and_then(Value::as_str).and_then(Severity::from_text);
    let triggered = || {
        let hosts = document.get("hosts").and_then(Value::as_array);
        hosts.is_some_and(|all| all.iter().any(|h| h.get("trigger").is_some_and(Value::is_string)))
    };
    match said {
        Some(severity) => severity,
        None if kind == "incident" && triggered() => Severity::Critical,
        None => Severity::Warning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_contract() {
        let all = |words: &[&str], ours: &[&str]| {
            let (mut a, mut b) = (words.to_vec(), ours.to_vec());
            a.sort_unstable();
            b.sort_unstable();
            assert_eq!(a, b);
        };
        let text = |words: &'static [Role]| words.iter().map(|w| w.text()).collect::<Vec<_>>();
        let roles = [
            "store",
            "bootstrap-root",
            "reply",
            "ring",
            "peer",
            "proxy",
            "net",
            "ras",
            "pair",
            "rpc",
            "control",
            "btl",
            "oob",
            "io",
        ];
        all(&roles, &text(Role::ALL));
        assert_eq!(Verdict::from_text("probable"), Some(Verdict::Probable));
        assert_eq!(CoverageLevel::from_text("not observed"), None);
        assert_eq!(serde_json::to_string(&IncidentKind::NcclInit).unwrap(), "\"nccl-init\"");
    }

    #[test]
    fn order_is_by_weight() {
        assert!(Severity::Critical > Severity::Warning && Severity::Notice > Severity::Info);
        assert!(Verdict::Confirmed > Verdict::Probable && Verdict::Possible > Verdict::Unexplained);
        assert_eq!(format!("{:<10}|", Severity::Info), "info      |");
    }
}
