//! Outputs of all commands: nothing that was observed is ever overwritten, what is written is private and whole.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use common::{command, data};

const CAPTURE: &str = "incident-torch1.13/node-a.pcap";
const LOG: &str = "incident-torch1.13/logs/node-a.dmesg";

/// A folder with one of everything that must stay.
struct Scene {
    place: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let place = TempDir::new().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::copy(data(CAPTURE), at("in.pcap")).unwrap();
        fs::copy(data("links/node-c.pcapng"), at("other.pcapng")).unwrap();
        fs::copy(data("links/node-c.pcap.gz"), at("other.txt")).unwrap();
        fs::copy(data(LOG), at("in.dmesg")).unwrap();
        fs::copy(data("hosts"), at("hosts")).unwrap();
        fs::hard_link(at("in.pcap"), at("hard.json")).unwrap();
        symlink(at("in.pcap"), at("soft.json")).unwrap();
        let scene = Scene { place };
        let watch = scene.run(&["watch", "in.pcap", "--once", "-q", "--case", "case.db", "--evidence", "evidence"]);
        assert_eq!(watch.0, Some(1), "{}", watch.1);
        let segment = fs::read_dir(scene.at("evidence")).unwrap().next().unwrap().unwrap().path();
        fs::rename(segment, scene.at("segment.jsonl")).unwrap();
        let lines = scene.run(&["analyze", "in.pcap", "--format", "jsonl", "-o", "host.jsonl"]);
        assert_eq!(lines.0, Some(1), "{}", lines.1);
        let packed = zstd::bulk::compress(&fs::read(scene.at("segment.jsonl")).unwrap(), 1).unwrap();
        fs::write(scene.at("segment.jsonl.zst"), packed).unwrap();
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Status and standard error of a command that is run in the folder.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = command().current_dir(self.place.path()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Whether all files that were there hold what they held.
    fn holds(&self, before: &[(PathBuf, Vec<u8>)]) -> bool {
        before.iter().all(|(path, bytes)| fs::read(path).is_ok_and(|now| now == *bytes))
    }

    /// All files with their contents.
    fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all: Vec<_> = fs::read_dir(self.place.path())
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.is_file())
            .map(|p| (p.clone(), fs::read(p).unwrap()))
            .collect();
        all.sort();
        all
    }
}

/// Command lines with `@` in the place of the output.
const COMMANDS: [&[&str]; 25] = [
    &["analyze", "in.pcap", "--oom", "in.dmesg", "--hosts", "hosts", "-o", "@"],
    &["analyze", "in.pcap", "--oom", "n1=in.dmesg", "--hosts", "hosts", "--format", "json", "--output", "@"],
    &["analyze", "in.pcap", "--oom", "in.dmesg", "--hosts", "hosts", "--carve", "@"],
    &["analyze", "in.pcap", "--oom", "in.dmesg", "--hosts", "hosts", "--annotate=@"],
    &["analyze", ".", "-o", "@"],
    &["messages", "in.pcap", "--hosts", "hosts", "-o", "@"],
    &["messages", "in.pcap", "--format", "jsonl", "-o@"],
    &["streams", "in.pcap", "-o", "@"],
    &["streams", "in.pcap", "--all", "--format", "json", "-o", "@"],
    &["oom", "in.dmesg", "--hosts", "hosts", "-o", "@"],
    &["oom", "n1=in.dmesg", "--format", "json", "-o", "@"],
    &["report", "--case", "case.db", "--hosts", "hosts", "-o", "@"],
    &["merge", "segment.jsonl", "case.db", "-o", "@"],
    &["merge", "--follow", ".", "--case", "central.db", "--once", "--metrics", "@"],
    &["merge", "--follow", ".", "--case", "central.db", "--once", "--alert-file", "@"],
    &["watch", "in.pcap", "--hosts", "hosts", "--case", "new.db", "--once", "--metrics", "@"],
    &["watch", "in.pcap", "--hosts", "hosts", "--case", "new.db", "--once", "--alert-file", "@"],
    &["merge", "segment.jsonl", "--hosts", "hosts", "--job", "in.dmesg", "-o", "@"],
    &["merge", "segment.jsonl", "--trust", "hosts", "-o", "@"],
    &["watch", "in.pcap", "--suppress", "hosts", "--case", "new.db", "--once", "--metrics", "@"],
    &["prescan", "--inventory", "hosts", "--probes", "in.dmesg", "-o", "@"],
    &["prescan", "--write-probes", "@"],
    &["report", "--case", "case.db", "--job", "in.dmesg", "--output", "@"],
    &["prescan", "--payload", "0300000b06e00000", "--pytorch", "1.13", "-o", "@"],
    &["decoy", "--as", "tcpstore:1.13", "--listen", "0", "--for", "1s", "--record", "@"],
];

/// The same of `live`, which opens no interface before.
const LIVE: [&[&str]; 2] = [
    &["live", "-i", "lo", "--hosts", "hosts", "--suppress", "in.dmesg", "--metrics", "@"],
    &["live", "-i", "lo", "--hosts", "hosts", "--alert-file", "@"],
];

/// Flags of all commands that name a file to be written.
const FLAGS: [&str; 7] = ["output", "metrics", "alert-file", "carve", "annotate", "record", "write-probes"];

#[test]
fn every_output_of_every_command_is_in_the_list() {
    let text = |arguments: &[&str]| String::from_utf8(command().args(arguments).output().unwrap().stdout).unwrap();
    let lines: Vec<&[&str]> = COMMANDS.into_iter().chain(LIVE).collect();
    let mut seen = 0;
    for name in text(&["--help"]).lines().filter_map(|l| l.strip_prefix("  ")?.split_whitespace().next()) {
        let help = text(&[name, "--help"]);
        for flag in
            FLAGS.into_iter().filter(|f| help.contains(&format!("--{f} <")) || help.contains(&format!("--{f}[=")))
        {
            let is = |a: &&str| a.starts_with(&format!("--{flag}")) || flag == "output" && a.starts_with("-o");
            let listed = lines.iter().any(|line| line[0] == name && line.iter().any(is));
            assert!(listed, "{name} --{flag} is not tried");
            seen += 1;
        }
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn directories_that_are_written_to_keep_what_lies_there() {
    let scene = Scene::new();
    let before = scene.contents();
    for line in [
        &["streams", "in.pcap", "--write", "."][..],
        &["report", "--case", "case.db", "--rows", "."],
        &["merge", "segment.jsonl", "--rows", "."],
        &["watch", "in.pcap", "--case", "new.db", "--once", "-q", "--evidence", "."],
        &["prescan", "--payload", "0300000b06e00000", "--pytorch", "1.13", "--policy-dir", "."],
        &["prescan", "--payload", "0300000b06e00000", "--pytorch", "1.13", "--attest", "."],
    ] {
        let (status, said) = scene.run(line);
        assert!(status.is_some_and(|s| s < 3), "{line:?}: {said}");
        assert!(scene.holds(&before), "{line:?} changed a file");
    }
}

#[test]
fn no_output_overwrites_what_was_observed() {
    let scene = Scene::new();
    let before = scene.contents();
    let everywhere = [
        "in.pcap",
        "./in.pcap",
        "hard.json",
        "soft.json",
        "other.pcapng",
        "other.txt",
        "case.db",
        "segment.jsonl",
        "segment.jsonl.zst",
        "host.jsonl",
    ];
    let live = if cfg!(feature = "live") { &LIVE[..] } else { &[] };
    for line in COMMANDS.into_iter().chain(live.iter().copied()) {
        let names = |input: &str| line.iter().any(|a| a.split('=').any(|part| part == input || part == "."));
        let own = ["in.dmesg", "hosts"].into_iter().filter(|i| names(i));
        for victim in everywhere.into_iter().chain(own) {
            let arguments: Vec<String> = line.iter().map(|a| a.replace('@', victim)).collect();
            let (status, said) = scene.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(status, Some(2), "{arguments:?}: {said}");
            let refused = said.contains("would overwrite") || said.contains("cannot create a new file");
            assert!(refused, "{arguments:?}: {said}");
            assert!(scene.holds(&before), "{arguments:?} changed a file");
        }
    }
}

#[test]
fn a_glob_that_makes_the_first_capture_the_output_is_caught() {
    let scene = Scene::new();
    let before = scene.contents();
    for line in [
        &["analyze", "-o", "in.pcap", "other.pcapng", "other.txt"][..],
        &["messages", "-o", "in.pcap", "other.pcapng"],
        &["streams", "other.pcapng", "--output", "in.pcap"],
        &["analyze", "other.pcapng", "--carve", "in.pcap"],
        &["oom", "-o", "in.dmesg", "hosts"],
        &["merge", "-o", "host.jsonl", "segment.jsonl"],
        &["merge", "--follow", ".", "--once", "--case", "in.pcap"],
        &["watch", "other.pcapng", "--once", "--case", "in.pcap"],
        &["watch", "other.pcapng", "--once", "--case", "segment.jsonl"],
        &["case", "backup", "case.db", "in.pcap"],
        &["analyze", "in.pcap", "-o", "new", "--carve", "new"],
    ] {
        let (status, said) = scene.run(line);
        assert_eq!(status, Some(2), "{line:?}: {said}");
        assert!(scene.holds(&before), "{line:?} changed a file");
    }
}

#[test]
fn an_output_of_our_own_is_replaced_whole_and_keeps_its_permissions() {
    let scene = Scene::new();
    let mode = |name: &str| fs::metadata(scene.at(name)).unwrap().permissions().mode() & 0o777;
    for format in ["table", "markdown", "json", "csv", "html"] {
        let name = format!("report.{format}");
        let line = ["analyze", "in.pcap", "--oom", "in.dmesg", "--format", format, "-o", &name];
        assert_eq!(scene.run(&line).0, Some(1), "{format}");
        assert_eq!(mode(&name), 0o600, "{format}");
        let first = fs::read(scene.at(&name)).unwrap();
        fs::set_permissions(scene.at(&name), fs::Permissions::from_mode(0o640)).unwrap();
        let (status, said) = scene.run(&line);
        assert_eq!(status, Some(1), "{format}: {said}");
        assert_eq!((fs::read(scene.at(&name)).unwrap() == first, mode(&name)), (true, 0o640), "{format}");
    }
    assert_eq!(scene.run(&["analyze", "in.pcap", "--mode", "644", "-o", "open.txt"]).0, Some(1));
    assert_eq!(mode("open.txt"), 0o644);
    let hidden = fs::read_dir(scene.place.path()).unwrap().flatten();
    let hidden: Vec<_> = hidden.map(|e| e.file_name()).filter(|n| n.to_string_lossy().starts_with('.')).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
    assert_eq!(scene.run(&["analyze", "in.pcap", "-o", "/dev/null"]).0, Some(1));
}

#[test]
fn what_holds_observations_is_private() {
    let scene = Scene::new();
    let line = ["watch", "in.pcap", "--once", "-q", "--case", "d/case.db", "--evidence", "d/evidence"];
    fs::create_dir(scene.at("d")).unwrap();
    assert_eq!(scene.run(&[&line[..], &["--alert-file", "d/alerts"]].concat()).0, Some(1));
    assert_eq!(scene.run(&["streams", "in.pcap", "--write", "d/streams"]).0, Some(0));
    assert_eq!(scene.run(&["case", "backup", "d/case.db", "d/copy.db"]).0, Some(0));
    let mut seen = 0;
    let mut folders = vec![scene.at("d")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let (path, meta) = entry.map(|e| (e.path(), e.metadata().unwrap())).unwrap();
            let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(meta.permissions().mode() & 0o777, wanted, "{}", path.display());
            seen += 1;
            if meta.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(seen > 8, "{seen}");
}

#[test]
fn a_device_or_a_fifo_is_no_list() {
    let scene = Scene::new();
    let made = std::process::Command::new("mkfifo").arg(scene.at("fifo")).status().unwrap();
    assert!(made.success());
    for path in ["/dev/zero", "fifo"] {
        for line in [
            &["analyze", "in.pcap", "--hosts", path][..],
            &["report", "--case", "case.db", "--hosts", path],
            &["merge", "segment.jsonl", "--hosts", path],
            &["watch", "in.pcap", "--case", "x.db", "--once", "--suppress", path],
            &["watch", "in.pcap", "--case", "x.db", "--once", "--hosts", path],
            &["prescan", "--inventory", path],
        ] {
            let (status, said) = scene.run(line);
            assert!(matches!(status, Some(1 | 2)), "{line:?}: {status:?}");
            assert!(
                said.contains("a regular file was required") || said.contains("no regular file"),
                "{line:?}: {said}"
            );
        }
    }
    let large = fs::File::create(scene.at("large")).unwrap();
    large.set_len(2 << 20).unwrap();
    let (status, said) = scene.run(&["watch", "in.pcap", "--case", "x.db", "--once", "--suppress", "large"]);
    assert_eq!((status, said.contains("1048576 bytes or less")), (Some(2), true), "{said}");
    let _: &Path = scene.place.path();
}
