//! `docs/cookbook.md`: every command is run, and prints what the page says.

#[path = "common/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A command of the page, what the page says that it prints, and where that stands in the page's text.
struct Recipe {
    title: String,
    script: String,
    output: String,
    place: (usize, usize),
}

fn recipes(page: &str) -> Vec<Recipe> {
    let mut all = Vec::new();
    for (begin, _) in page.match_indices("\n## ") {
        let text = &page[begin + 4..];
        let text = &text[..text.find("\n## ").unwrap_or(text.len())];
        let title = text.lines().next().unwrap().to_string();
        let block = |kind: &str| {
            let fence = format!("```{kind}\n");
            let from = text.find(&fence).unwrap_or_else(|| panic!("{title} has no block of {kind}")) + fence.len();
            let length = text[from..].find("```").unwrap();
            (from, from + length)
        };
        let ((a, b), (c, d)) = (block("bash"), block("text"));
        let at = begin + 4;
        let (script, output) = (text[a..b].to_string(), text[c..d].to_string());
        all.push(Recipe { title, script, output, place: (at + c, at + d) });
    }
    all
}

/// The programs that a script calls and that this machine lacks.
fn missing(script: &str) -> Option<&'static str> {
    let there = |name: &&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).env("PATH", search_path()).output();
        found.unwrap().status.success()
    };
    ["jq", "tshark", "duckdb"].into_iter().filter(|name| script.contains(name)).find(|name| !there(name))
}

/// Where programs are looked for: the one that was built, those that `make test` fetched, and the user's.
fn search_path() -> String {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_rdzvscope"));
    let fetched = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools/python/duckdb_cli");
    format!("{}:{fetched}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap())
}

fn run(script: &str, directory: &Path) -> String {
    let mut shell = Command::new("bash");
    shell
        .args(["-c", script])
        .current_dir(directory)
        .env("PATH", search_path())
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC");
    let output = shell.env_remove("NO_COLOR").env_remove("COLUMNS").output().unwrap();
    assert!(output.status.code().is_some_and(|s| s < 2), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Whether `printed` is what `said` says; a line `…` stands for any lines.
fn fits(said: &str, printed: &str) -> bool {
    let mut rest = printed;
    for (at, part) in said.split("…\n").enumerate() {
        match rest.find(part) {
            Some(0) => rest = &rest[part.len()..],
            Some(n) if at > 0 => rest = &rest[n + part.len()..],
            _ => return false,
        }
    }
    rest.is_empty() || said.ends_with("…\n")
}

#[test]
fn every_recipe_prints_what_the_page_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("docs/cookbook.md");
    let mut page = std::fs::read_to_string(&path).unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root.join("testdata"), directory.path().join("testdata")).unwrap();
    let all = recipes(&page);
    assert_eq!(all.len(), 12);
    let write = std::env::var_os("UPDATE_COOKBOOK").is_some();
    let mut wrong = Vec::new();
    // From the end, so that places before it stay right where the page is written anew; files are made from the start.
    let mut printed = Vec::new();
    for recipe in &all {
        printed.push(match missing(&recipe.script) {
            Some(program) => {
                skip::skipped(&format!("{program} is not installed: {}", recipe.title));
                None
            }
            None => Some(run(&recipe.script, directory.path())),
        });
    }
    for (recipe, printed) in all.iter().zip(&printed).rev() {
        let Some(printed) = printed else { continue };
        if write && !fits(&recipe.output, printed) {
            page.replace_range(recipe.place.0..recipe.place.1, printed);
        } else if !fits(&recipe.output, printed) || recipe.output.trim().is_empty() {
            wrong.push(format!("{}\n{printed}", recipe.title));
        }
    }
    if write {
        std::fs::write(&path, page).unwrap();
    }
    assert!(wrong.is_empty(), "the page says something else than:\n{}", wrong.join("\n"));
}

#[test]
fn an_ellipsis_stands_for_lines() {
    assert!(fits("a\n…\nd\n", "a\nb\nc\nd\n") && fits("a\n…\n", "a\nb\n") && fits("a\n", "a\n"));
    assert!(!fits("a\n", "a\nb\n") && !fits("a\n…\nd\n", "a\nb\n") && !fits("b\n", "a\nb\n"));
}
