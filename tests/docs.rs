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

/// All documents, as paths from the root.
fn pages() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |folder: &str| {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|n| n.ends_with(".md")).collect();
        names.sort();
        names
    };
    let docs = names("docs").into_iter().map(|n| format!("docs/{n}"));
    names(".").into_iter().chain(docs).collect()
}

/// Commands that a page quotes in blocks of code: the lines that begin with the program's name, without what a shell
/// does with their output. With each, whether it stands in a block that says it can be run as it is (`sh`).
fn quoted(text: &str) -> Vec<(Vec<String>, bool)> {
    let (mut fence, mut found) = (None, Vec::new());
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.to_string()) };
            continue;
        }
        let code = fence.is_some() || line.starts_with("    ");
        let line = line.trim();
        if !code || !line.starts_with("rdzvscope ") {
            continue;
        }
        let words = words(line);
        if !words.iter().any(|w| w.chars().all(char::is_uppercase) || w.contains("...")) {
            found.push((words, fence.as_deref() == Some("sh")));
        }
    }
    found
}

/// A line as a shell splits it, up to a pipe, a redirection or a comment; nothing is expanded.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            (c, None) if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('|' | '>' | ';' | '&', None) => break,
            ('#', None) if word.is_none() => break,
            (' ', None) => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn commands_in_documents_are_understood() {
    let mut count = 0;
    for page in pages() {
        for (words, _) in quoted(&read(&page)) {
            count += 1;
            if let Err(e) = rdzvscope::cli::command().try_get_matches_from(&words) {
                // A page may show what a value looks like with a file that is not there.
                let fine =
                    matches!(e.kind(), clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion);
                assert!(fine, "{page}: {words:?}: {e}");
            }
        }
    }
    assert!(count >= 30, "{count} commands were found");
}

#[test]
fn commands_that_need_only_this_repository_run() {
    let mut count = 0;
    // The cookbook's commands are run by a test of their own, which holds their output too.
    for page in pages().into_iter().filter(|p| p != "docs/cookbook.md") {
        for (words, _) in quoted(&read(&page)).into_iter().filter(|(_, runs)| *runs) {
            // Those that read what is here, or nothing at all.
            let here = words.iter().any(|w| w.starts_with("testdata/"));
            let nothing = ["explain", "doctor"].contains(&words[1].as_str())
                || (words[1] == "prescan" && words.iter().any(|w| w == "--payload" || w == "--behaviour"));
            if !here && !nothing {
                continue;
            }
            count += 1;
            let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            let (status, out, err) = rdzvscope(&arguments);
            assert!(status == 0 || status == 1, "{page}: {words:?}: status {status}: {err}");
            assert!(!out.is_empty(), "{page}: {words:?} prints nothing");
        }
    }
    assert!(count >= 8, "{count} commands were run");
}

#[test]
fn every_document_is_reached_from_the_readme() {
    let readme = read("README.md");
    for page in pages().into_iter().filter(|p| p != "README.md") {
        assert!(readme.contains(&page), "README.md does not name {page}");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in pages() {
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
