//! Evidence that counts only where the host it speaks for has signed it: OpenSSH signatures, checked by `ssh-keygen`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::facts::{FactSet, Kind};
use super::read::LineReader;
use crate::capture::{Limits, unpacked_from};
use crate::escape::clean;
use crate::names::short;

/// What a signature must be for (`ssh-keygen -n`).
const NAMESPACE: &str = "rdzvscope-evidence";
/// A file that is signed is read whole: no larger than this, in bytes.
const LARGEST: u64 = 1 << 30;
/// Principals of one key that are tried.
const PRINCIPALS: usize = 16;

/// A file of signers, as `allowed_signers` of ssh-keygen(1): a principal is the name of a host.
#[derive(Clone, Debug)]
pub struct AllowedSigners(PathBuf);

/// A file whose signature is good.
#[derive(Debug)]
struct Signed {
    bytes: Vec<u8>,
    /// Names of the hosts that the key may sign for, in the form in which names compare.
    hosts: BTreeSet<String>,
}

impl AllowedSigners {
    /// Signers listed in a file.
    ///
    /// # Errors
    /// In words: that the file cannot be read, or that there is no `ssh-keygen`.
    pub fn open(path: &Path) -> Result<AllowedSigners, String> {
        crate::disk::read_small(path, crate::disk::SMALL_FILE)
            .map_err(|e| format!("{}: cannot read: {e}", path.display()))?;
        // Without arguments that it understands it says how it is used.
        let there = Command::new("ssh-keygen").arg("-?").stdin(Stdio::null()).output();
        there
            .map_err(|e| format!("ssh-keygen, which checks signatures, cannot be run: {e} (package openssh-client)"))?;
        Ok(AllowedSigners(path.to_owned()))
    }

    /// Reads a file of evidence whose signature, `FILE.sig`, is good, and that speaks for hosts of the signer alone. `known`:
    /// names that its origins are known by already.
    ///
    /// # Errors
    /// In words, with the file's name.
    pub fn read(&self, path: &Path, known: impl Fn(&str) -> BTreeSet<String>) -> Result<LineReader, String> {
        let name = clean(path.to_string_lossy().as_bytes(), 400);
        let refused = |why: String| format!("{name}: refused: {why}");
        let signed = self.verified(path).map_err(refused)?;
        let size = signed.bytes.len() as u64;
        let input = unpacked_from(Cursor::new(signed.bytes), &Limits::default());
        let input = input.map_err(|e| format!("{name}: cannot read: {e}"))?;
        let reader = LineReader::new(&path.to_string_lossy()).of_size(size);
        let reader = reader.read(&mut std::io::BufReader::new(input)).map_err(|e| e.to_string())?;
        for (origin, mut names) in host_names(&reader.facts) {
            names.extend(known(&origin));
            let signer = signed.hosts.iter().cloned().collect::<Vec<_>>().join(", ");
            if names.is_empty() {
                return Err(refused(format!("signed by {signer}, and it does not say which host it speaks for")));
            }
            if let Some(foreign) = names.difference(&signed.hosts).next() {
                let foreign = clean(foreign.as_bytes(), 255);
                return Err(refused(format!("signed by {signer}, and it speaks for {foreign}")));
            }
        }
        Ok(reader)
    }

    /// The very bytes that were checked, and for whom they are signed.
    fn verified(&self, path: &Path) -> Result<Signed, String> {
        let signature = {
            let mut name = path.as_os_str().to_owned();
            name.push(".sig");
            PathBuf::from(name)
        };
        if let Err(e) = crate::disk::read_small(&signature, crate::disk::SMALL_FILE) {
            return Err(format!(
                "its signature, {}, cannot be read: {e}",
                clean(signature.to_string_lossy().as_bytes(), 400)
            ));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(|e| format!("cannot read: {e}"))?;
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|e| format!("cannot read: {e}"))?;
        if bytes.len() as u64 > LARGEST {
            return Err("it is larger than 1 GiB, and what is signed is read whole".to_string());
        }
        let found = self.keygen("find-principals", None, &signature, &[])?;
        let principals: Vec<String> = String::from_utf8_lossy(&found.stdout).lines().map(str::to_string).collect();
        let mut hosts = BTreeSet::new();
        for principal in principals.iter().take(PRINCIPALS) {
            if self.keygen("verify", Some(principal), &signature, &bytes)?.status.success() {
                hosts.insert(short(principal));
            }
        }
        match (hosts.is_empty(), principals.is_empty()) {
            (false, _) => Ok(Signed { bytes, hosts }),
            (true, true) => Err(format!("no key in {} made its signature", self.0.display())),
            (true, false) => Err("its signature is of other bytes, or of another purpose".to_string()),
        }
    }

    fn keygen(
        &self,
        what: &str,
        principal: Option<&str>,
        signature: &Path,
        bytes: &[u8],
    ) -> Result<std::process::Output, String> {
        let mut command = Command::new("ssh-keygen");
        command.args(["-Y", what, "-n", NAMESPACE, "-f"]).arg(&self.0).arg("-s").arg(signature);
        command.args(principal.iter().flat_map(|p| ["-I", p]));
        let failed = |e: std::io::Error| format!("ssh-keygen cannot be run: {e}");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            // It ends before it has read all where the signature is of no use.
            let _ = input.write_all(bytes);
        }
        child.wait_with_output().map_err(failed)
    }
}

/// The names by which origins call their host: of the machine, and of whoever gathered their lines.
pub fn host_names(facts: &FactSet) -> BTreeMap<String, BTreeSet<String>> {
    let mut names: BTreeMap<String, BTreeSet<String>> =
        facts.origins().into_iter().map(|o| (o, BTreeSet::new())).collect();
    for ((origin, kind, _), entry) in &facts.entries {
        if matches!(kind, Kind::Origin | Kind::Machine) {
            let body: Option<serde_json::Value> = serde_json::from_slice(&entry.data).ok();
            let host = body.as_ref().and_then(|b| b.get("host")?.as_str()).map(short);
            names.entry(origin.clone()).or_default().extend(host);
        }
    }
    names
}
