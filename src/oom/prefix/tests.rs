//! What stands before a message, part by part.

use super::*;

fn of(line: &str) -> (Option<String>, Option<String>, Option<String>, bool, String) {
    let p = peel(line.as_bytes(), &Labels::default());
    let own = |c: &Option<Cow<'_, [u8]>>| c.as_ref().map(|c| String::from_utf8_lossy(c).into_owned());
    (own(&p.host), own(&p.label), own(&p.weak), p.stamp.is_some(), String::from_utf8_lossy(&p.message).into_owned())
}

const KILL: &str = "Out of memory: Killed process 7 (py) total-vm:9kB, anon-rss:8kB";

#[test]
fn every_part_names_what_it_yields() {
    assert!(PREFIXES.iter().all(|p| !p.name.is_empty() && !p.yields.is_empty()));
}

#[test]
fn hosts_of_lines_of_collectors_and_of_files() {
    for (prefix, own, label, weak, timed) in [
        ("[  521.653666] ", None, None, None, true),
        ("[  521.653666] gpu-1 kernel: ", Some("gpu-1"), None, None, true),
        ("[  521.653666 <    0.000123>] ", None, None, None, true),
        ("[Tue Nov 14 22:14:25 2023] ", None, None, None, true),
        ("[184467.512040] [T48260] ", None, None, None, true),
        ("kern  :err   : [184467.512040] ", None, None, None, true),
        ("2023-11-14T22:14:25,512040+00:00 ", None, None, None, true),
        ("Nov 14 22:14:25 gpu-1 kernel: [  99.5] ", Some("gpu-1"), None, None, true),
        ("Nov 14 22:14:25 gpu-1 kern.err kernel: ", Some("gpu-1"), None, None, true),
        ("Tue 2023-11-14 22:14:25 UTC gpu-1 kernel: ", Some("gpu-1"), None, None, true),
        ("1700000065.512040 gpu-1 kernel: ", Some("gpu-1"), None, None, true),
        ("<3>1 2023-11-14T22:14:25Z gpu-1 kernel - - - ", Some("gpu-1"), None, None, true),
        ("3,1234,152700479,-;", None, None, None, true),
        ("3,1234,152700479,-,caller=T12;", None, None, None, true),
        ("192.0.2.7: kern: err: [2022-01-25T10:35:59.118934566Z]: ", None, Some("192.0.2.7"), None, true),
        ("gpu-1: [Tue Nov 14 22:14:25 2023] ", None, Some("gpu-1"), None, true),
        ("gpu-1: Nov 14 22:14:25 own kernel: ", Some("own"), Some("gpu-1"), None, true),
        ("gpu-1\t2023-11-14T22:14:25Z ", None, Some("gpu-1"), None, true),
        ("[gpu-1] out: [Tue Nov 14 22:14:25 2023] ", None, Some("gpu-1"), None, true),
        ("train-1  | 2023-11-14T22:14:25Z host-7 kernel: ", Some("host-7"), None, Some("train-1"), true),
        ("[pod/npd-x/npd] 2023-11-14T22:14:25Z ", None, None, Some("npd-x"), true),
        ("train-0 main 2023-11-14T22:14:25Z ", None, None, Some("train-0"), true),
        ("/var/log/kern.log:13:2023-11-14T22:14:25+00:00 gpu-1 kernel: ", Some("gpu-1"), None, None, true),
        ("/var/log/kern.log-13-2023-11-14T22:14:25+00:00 gpu-1 kernel: ", Some("gpu-1"), None, None, true),
        ("logs/gpu-7.dmesg:[Tue Nov 14 22:14:25 2023] ", None, None, Some("gpu-7"), true),
        ("> > [Tue Nov 14 22:14:25 2023] ", None, None, None, true),
        ("| - [Tue Nov 14 22:14:25 2023] ", None, None, None, true),
        ("{host=\"gpu-1\", job=\"kern\"} ", None, Some("gpu-1"), None, false),
        ("2023-11-14T22:14:25Z {host=\"gpu-1\"} ", None, Some("gpu-1"), None, true),
        ("2023-11-14T22:14:25.5Z stderr F ", None, None, None, true),
        ("13:Nov 14 22:14:25 gpu-1 kernel: ", Some("gpu-1"), None, None, true),
        ("5月 29 23:06:21 gpu-001 kernel: ", Some("gpu-001"), None, None, true),
        ("weird prefix (2023-11-14T22:14:25Z) ", None, None, None, true),
        ("", None, None, None, false),
        ("kernel: ", None, None, None, false),
    ] {
        let line = format!("{prefix}{KILL}");
        let o = |s: Option<&str>| s.map(str::to_owned);
        assert_eq!(of(&line), (o(own), o(label), o(weak), timed, KILL.to_owned()), "{line}");
    }
}

#[test]
fn words_of_messages_are_no_prefix() {
    for line in [
        "python3: page allocation failure: order:0",
        "oom_reaper: reaped process 7 (a: [ 1.5] b), now anon-rss:0kB",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "srun: error: gpu-07: task 0: Out Of Memory",
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null)",
        "python3 invoked oom-killer: gfp_mask=0x0",
        "Killed process 7 (2023-11-14T22:14:25Z h kernel: x) total-vm:9kB, anon-rss:8kB",
    ] {
        assert_eq!(of(line).4, line);
        assert_eq!((of(line).0, of(line).3), (None, false), "{line}");
    }
    for word in ["data", "MESSAGE", "message", "stdout", "kernel", "error"] {
        let got = of(&format!("{word}: [Tue Nov 14 22:14:25 2023] {KILL}"));
        assert_eq!((got.0, got.1), (None, None), "{word}");
    }
}

#[test]
fn the_writer_is_the_kernel_or_a_program() {
    for (line, kernel) in [
        ("Nov 14 22:14:25 h kernel: x", Some(true)),
        ("Nov 14 22:14:25 h logger[7]: x", Some(false)),
        ("Nov 14 22:14:25 h root: x", Some(false)),
        ("<13>Nov 14 22:14:25 h kernel: x", Some(false)),
        ("<3>Nov 14 22:14:25 h kernel: x", Some(true)),
        ("12,1,5,-;x", Some(false)),
        ("3,1,5,-;x", Some(true)),
        ("[  1.5] x", None),
    ] {
        let got = match peel(line.as_bytes(), &Labels::default()).writer {
            Writer::Kernel => Some(true),
            Writer::Program(_) => Some(false),
            Writer::Unknown => None,
        };
        assert_eq!(got, kernel, "{line}");
    }
}
