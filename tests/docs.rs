//! What the documents say is so.

use std::path::Path;

use assert_cmd::Command;

fn rdzvscope(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("rdzvscope").unwrap().args(arguments).output().unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_rule_is_documented_as_explain_tells_it() {
    let page = read("docs/rules.md");
    let squeezed = |t: &str| t.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, list, _) = rdzvscope(&["explain"]);
    let ids: Vec<&str> = list.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert!(ids.len() > 20, "{ids:?}");
    for id in &ids {
        let (status, text, _) = rdzvscope(&["explain", id]);
        assert_eq!(status, 0);
        let meaning = text.split("\n\n").nth(1).unwrap();
        assert!(page.contains(&format!("## {id}\n")), "{id} has no section");
        assert!(squeezed(&page).contains(&squeezed(meaning)), "{id} is told otherwise");
    }
    let sections = page.lines().filter(|l| l.starts_with("## ")).count();
    assert_eq!(sections, ids.len(), "a section of a rule that is no more");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec!["README.md".to_string(), "README.zh-CN.md".into(), "CONTRIBUTING.md".into()];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    for page in pages {
        let text = read(&page);
        let folder = root.join(&page).parent().unwrap().to_path_buf();
        for link in text.split("](").skip(1).filter_map(|t| t.split(')').next()) {
            let target = link.split('#').next().unwrap();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            assert!(folder.join(target).exists(), "{page}: {link} leads nowhere");
        }
        // Paths in code font that look like the project's own.
        for path in
            text.split('`').filter(|t| t.starts_with("docs/") || t.starts_with("src/") || t.starts_with("testdata/"))
        {
            let path = path.split_whitespace().next().unwrap().trim_end_matches(['.', ',']);
            if !path.contains(['*', '<', '{']) {
                assert!(root.join(path).exists(), "{page}: {path} is not there");
            }
        }
    }
}

/// Every command, as the program lists them.
fn commands() -> Vec<String> {
    let (_, help, _) = rdzvscope(&["--help"]);
    let commands: Vec<String> = help
        .lines()
        .skip_while(|l| !l.starts_with("Commands:"))
        .skip(1)
        .take_while(|l| !l.is_empty())
        .filter_map(|l| l.split_whitespace().next())
        .filter(|c| *c != "help")
        .map(str::to_string)
        .collect();
    assert!(commands.len() >= 8, "{commands:?}");
    commands
}

#[test]
fn every_command_has_help_of_one_screen_with_examples_first() {
    for command in commands() {
        let (status, short, _) = rdzvscope(&[&command, "-h"]);
        let (_, long, _) = rdzvscope(&[&command, "--help"]);
        assert_eq!(status, 0, "{command}");
        assert!(short.lines().count() <= 55, "{command} -h has {} lines", short.lines().count());
        for (flag, text) in [("-h", &short), ("--help", &long)] {
            let examples = text.find("\nExample").unwrap_or_else(|| panic!("{command} {flag} shows no example"));
            let options = text.find("\nOptions:").unwrap();
            assert!(examples < options, "{command} {flag} shows examples after the options");
        }
        let options = |text: &str| {
            let words = text.lines().filter_map(|l| l.trim_start().strip_prefix('-').map(str::to_string));
            words.filter(|l| l.starts_with('-') || l.contains(", --")).count()
        };
        assert!(options(&short) <= options(&long), "{command}: -h has options that --help has not");
        if short.contains("see more with '--help'") {
            assert!(long.len() > short.len(), "{command}: --help promises more and has none");
        }
    }
}

#[test]
fn man_pages_and_completions_are_made() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(rdzvscope(&["man", folder.path().to_str().unwrap()]).0, 0);
    let pages: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(pages.iter().any(|p| p == "rdzvscope.1") && pages.iter().any(|p| p == "rdzvscope-analyze.1"), "{pages:?}");
    assert_eq!(
        pages.len(),
        commands().len() + 1 + 4,
        "one a command, one for the whole, and those of `case`: {pages:?}"
    );
    let page = std::fs::read_to_string(folder.path().join("rdzvscope-analyze.1")).unwrap();
    for section in ["NAME", "SYNOPSIS", "EXAMPLES", "OPTIONS", "\"EXIT STATUS\""] {
        assert!(page.contains(&format!("\n.SH {section}\n")), "{section} is missing in {page}");
    }
    assert!(page.contains("Memory for flows and streams"), "a man page tells what -h leaves out");
    for shell in ["bash", "zsh", "fish"] {
        let (status, text, _) = rdzvscope(&["completions", shell]);
        assert!(status == 0 && text.contains("analyze"), "{shell}");
    }
}
