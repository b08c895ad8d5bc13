//! A job's stores as witnesses: who joined, whose keep-alives stopped, who asked for a dump. The captures of
//! `silence-torch1.12` are of real agents, one of which was stopped and one killed, at recorded times.

mod common;
mod wire;

use serde_json::Value;
use tempfile::TempDir;

use common::{Run, analyze, args, data, records, table, unwrapped};
use wire::{Ends, Wire, string};

const SILENCE: &str = "silence-torch1.12";

/// The signs of one host's agent.
fn sign<'a>(run: &'a Run, host: &str) -> &'a Value {
    let all = run.json["jobs"][0]["signs_of_life"].as_array().unwrap();
    all.iter().find(|s| s["host"] == host).unwrap_or_else(|| panic!("no {host} in {all:#?}"))
}

fn moments<'a>(run: &'a Run, kind: &str) -> Vec<&'a Value> {
    let all = run.json["jobs"].as_array().unwrap().iter().flat_map(|j| j["timeline"].as_array().unwrap());
    all.filter(|m| m["kind"] == kind).collect()
}

fn seconds(time: &Value) -> f64 {
    let text = time.as_str().unwrap_or_else(|| panic!("{time} is no time"));
    chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt().unwrap() as f64 / 1e9
}

/// Seconds on 2026-11-29 after 16:00 UTC.
fn clock(minutes: u32, s: f64) -> f64 {
    1_795_968_000.0 + f64::from(minutes) * 60.0 + s
}

#[test]
fn the_first_agent_to_fall_silent_is_named_with_what_that_rests_on() {
    let run = analyze(&[SILENCE]);
    let job = &run.json["jobs"][0];
    assert_eq!((&job["run_id"], &job["world_size"]), (&"exp43".into(), &4.into()));
    // node-3 was stopped at 16:40:10.656 (SIGSTOP), node-4 killed at 16:40:22.683; a keep-alive is due every 5 s.
    for (host, at, first) in [("node-3", clock(40, 10.656), true), ("node-4", clock(40, 22.683), false)] {
        let s = sign(&run, host);
        let silent = seconds(&s["fell_silent"]);
        assert!(at - 5.2 < silent && silent < at, "{host}: {silent} against {at}");
        assert_eq!(s["first_of_job"], first, "{host}");
        assert!((s["interval_seconds"].as_f64().unwrap() - 5.0).abs() < 0.3, "{s}");
        // The others give it up after three keep-alives.
        let removed = seconds(&s["removed"]);
        assert!(15.0 < removed - silent && removed - silent < 21.0, "{host}: {removed}");
        let basis = s["basis"].as_str().unwrap();
        for word in [
            "last keep-alive seen",
            "one every 5.",
            "was due by",
            "shows no newer one",
            "last request on its connection",
        ] {
            assert!(basis.contains(word), "{word} is missing: {basis}");
        }
    }
    // A killed process's kernel closes its connection, a stopped one's does not.
    assert!((seconds(&sign(&run, "node-4")["disconnected"]) - clock(40, 22.683)).abs() < 0.1);
    assert!(sign(&run, "node-3")["disconnected"].is_null());
    for host in ["node-1", "node-2"] {
        let s = sign(&run, host);
        assert!(s["fell_silent"].is_null() && s["removed"].is_null(), "{s}");
    }
    assert_eq!(sign(&run, "node-1")["connection"], Value::Null, "its agent speaks over loopback");
    let ranks = job["participants"].as_array().unwrap();
    let silent: Vec<&Value> = ranks.iter().filter(|p| !p["fell_silent"].is_null()).map(|p| &p["host"]).collect();
    assert_eq!(silent, ["node-3", "node-4"]);
    let dump = moments(&run, "dump-requested");
    assert_eq!((dump.len(), &dump[0]["host"], &dump[0]["packet"]), (1, &"node-2".into(), &239.into()));
    assert!((seconds(&dump[0]["time"]) - clock(40, 32.481)).abs() < 0.01);
    assert!(dump[0]["text"].as_str().unwrap().contains("by rank 1"));
    // Both stores are PyTorch 1.12's: clients that do not wait for workers open their second connection first.
    let dialects: Vec<&Value> = run.json["listeners"].as_array().unwrap().iter().map(|l| &l["dialect"]).collect();
    assert_eq!(dialects, ["B", "B"]);
}

#[test]
fn one_capture_of_a_living_agent_tells_the_same_and_the_silent_ones_own_nothing() {
    let of = |name: &str| analyze(&[format!("{SILENCE}/{name}.pcap")]);
    let run = of("node-2");
    // `MASTER_ADDR` is a name that nothing here resolves; its port belongs to one store only.
    assert_eq!((run.json["jobs"].as_array().unwrap().len(), &run.json["jobs"][0]["run_id"]), (1, &"exp43".into()));
    for host in ["node-3", "node-4"] {
        let s = sign(&run, host);
        assert!(!s["fell_silent"].is_null() && !s["removed"].is_null(), "{s}");
        assert!(s["basis"].as_str().unwrap().contains("in no capture"), "{s}");
        // Others read its last keep-alive up to 5 s later, after its death; its own clock says when it wrote it.
        let written = if host == "node-3" { clock(40, 7.556) } else { clock(40, 18.286) };
        assert!((seconds(&s["fell_silent"]) - written).abs() < 0.01, "{s}");
    }
    // On node-3 all states end with its own: it was stopped, but nothing in its capture shows that others went on.
    let run = of("node-3");
    for host in ["node-1", "node-2", "node-3", "node-4"] {
        assert!(sign(&run, host)["fell_silent"].is_null(), "{host}: nothing came after its last sign");
    }
}

/// The first packets of a capture, up to this time.
fn until(pcap: &[u8], seconds: f64) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap());
    let time = |at: usize| f64::from(word(at)) + f64::from(word(at + 4)) / 1e6;
    let end = records(pcap).into_iter().take_while(|(start, _)| time(*start) <= seconds).last().unwrap().1;
    pcap[..end].to_vec()
}

#[test]
fn no_silence_is_claimed_where_the_capture_ends() {
    let directory = TempDir::new().unwrap();
    let whole = std::fs::read(data(SILENCE).join("node-1.pcap")).unwrap();
    let claims = |seconds: f64| -> Vec<String> {
        let path = directory.path().join("node-1.pcap");
        std::fs::write(&path, until(&whole, seconds)).unwrap();
        let run = analyze(&[path]);
        moments(&run, "fell-silent").iter().map(|m| m["host"].as_str().unwrap().to_string()).collect()
    };
    // node-3's last keep-alive is of 16:40:07.556: until 16:40:22 three may be late.
    assert_eq!(claims(clock(40, 21.0)), [""; 0]);
    assert_eq!(claims(clock(40, 24.0)), ["node-3"]);
    assert_eq!(claims(clock(40, 40.0)), ["node-3", "node-4"]);
}

#[test]
fn a_job_that_ends_in_order_has_nobody_silent() {
    let captures = ["torchrun/node-a.pcap", "torchrun/node-b.pcap", "--hosts", "hosts"];
    let run = analyze(&captures);
    let job = &run.json["jobs"][0];
    assert_eq!(job["run_id"], "exp42");
    let hosts: Vec<&str> =
        job["signs_of_life"].as_array().unwrap().iter().map(|s| s["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["node-a", "node-b", "node-c"]);
    assert!(moments(&run, "fell-silent").is_empty());
    assert_eq!(moments(&run, "closed").len(), 1);
    assert!(!moments(&run, "exit-barrier").is_empty());
    let joined: Vec<&Value> =
        moments(&run, "joined").into_iter().filter(|m| m["text"].as_str().unwrap().contains("agent")).collect();
    // As `rdzvscope messages` shows their first states: node-a wrote the first one.
    let order: Vec<&str> = joined.iter().map(|m| m["host"].as_str().unwrap()).collect();
    assert_eq!(order, ["node-a", "node-b", "node-c"]);
    let (_, text) = table(&captures);
    assert!(!text.contains("fell silent") && !text.contains("keep-alives stopped"), "{text}");
}

#[test]
fn every_form_of_the_report_names_the_silent_and_no_redacted_one_does() {
    let (_, text) = table(&[SILENCE]);
    let text = unwrapped(&text);
    assert!(text.contains("Job exp43: node-3 fell silent first at 16:40:07.556524Z, 1 more after it."), "{text}");
    assert!(text.contains("node-3: keep-alives stopped, the first to fall silent"), "{text}");
    let (_, ticket) = table(&[SILENCE, "--format", "markdown"]);
    assert!(ticket.contains("node-3: keep-alives stopped") && ticket.lines().count() <= 40, "{ticket}");
    let (_, page) = table(&[SILENCE, "--format", "html"]);
    for class in ["fell-silent", "joined", "dumped", "left"] {
        assert!(page.contains(&format!("class=\"{class}\"")), "no mark {class}");
    }
    for format in ["table", "markdown", "html", "csv", "json", "jsonl"] {
        let (_, text) = table(&args(&[&[SILENCE, "--redact", "--format", format]]));
        for secret in ["node-1", "node-2", "node-3", "node-4", "192.0.2.", "exp43"] {
            assert!(!text.contains(secret), "{secret} is left in {format}");
        }
    }
    let run = analyze(&[SILENCE, "--redact"]);
    assert_eq!(moments(&run, "fell-silent").len(), 2, "what happened stays");
}

/// Monitor threads of NCCL's process groups: three ranks ask for the dump flag once a second, one stops, one writes it.
#[test]
fn ranks_that_stop_asking_for_the_dump_flag_fell_silent() {
    let store = (11, 29500);
    let mut w = Wire::new();
    let check = [&[5u8][..], &1u64.to_le_bytes(), &string(b"/exception_dump")].concat();
    let set = [&[1u8][..], &string(b"/exception_dump"), &string(&2i32.to_le_bytes())].concat();
    let validate = [&[0u8][..], &0x3C85_F7CEu32.to_le_bytes()].concat();
    let ends: Vec<Ends> = [12u8, 13, 14].iter().map(|host| Ends((*host, 40_000), store)).collect();
    let mut sent = [0u32; 3];
    let mut answered = [0u32; 3];
    let mut say = |w: &mut Wire, rank: usize, bytes: &[u8], answer: &[u8]| {
        w.client(ends[rank], sent[rank], bytes);
        sent[rank] += bytes.len() as u32;
        if !answer.is_empty() {
            w.server(ends[rank], answered[rank], answer);
            answered[rank] += answer.len() as u32;
        }
    };
    w.again(0, |w| {
        for (rank, e) in ends.iter().enumerate() {
            w.handshake(*e);
            say(w, rank, &validate, b"");
        }
    });
    for second in 1..=40u32 {
        w.again(second * 1000, |w| {
            for rank in 0..3 {
                // Rank 1 (192.0.2.13) asks for the last time in second 15; rank 2 writes the flag in second 30.
                if rank == 1 && second > 15 {
                    continue;
                }
                if rank == 2 && second == 30 {
                    say(w, rank, &set, b"");
                }
                say(w, rank, &check, if second >= 30 && (rank, second) != (0, 30) { &[0] } else { &[1] });
            }
        });
    }
    let directory = TempDir::new().unwrap();
    let run = analyze(&[w.save(directory.path(), "store.pcap")]);
    let job = &run.json["jobs"][0];
    let signs = job["signs_of_life"].as_array().unwrap();
    assert_eq!(signs.len(), 3, "{signs:#?}");
    assert!(signs.iter().all(|s| s["kind"] == "dump-flag-poll" && s["key"] == "/exception_dump"), "{signs:#?}");
    let silent: Vec<(&str, f64)> = signs
        .iter()
        .filter(|s| !s["fell_silent"].is_null())
        .map(|s| (s["address"].as_str().unwrap(), seconds(&s["fell_silent"]) - 1_795_951_210.0))
        .collect();
    assert_eq!(silent.len(), 1, "{signs:#?}");
    assert!(silent[0].0 == "192.0.2.13" && (silent[0].1 - 15.0).abs() < 0.1, "{silent:?}");
    let asked = moments(&run, "dump-requested");
    assert_eq!((asked.len(), &asked[0]["address"]), (1, &"192.0.2.14".into()));
    assert!(asked[0]["text"].as_str().unwrap().contains("by rank 2"), "{asked:?}");
    let seen: Vec<&str> = moments(&run, "dump-seen").iter().map(|m| m["address"].as_str().unwrap()).collect();
    assert_eq!(seen, ["192.0.2.14", "192.0.2.12"]);
}
