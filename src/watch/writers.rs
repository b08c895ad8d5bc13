//! Who has a file open for writing.

use std::path::Path;

/// Whether some process writes a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// This one: its name and process id.
    Alive(String, u32),
    /// None that can be seen.
    None,
    /// Not all processes could be looked at.
    Unknown,
}

/// Looks through `/proc/*/fd`, as far as this process may.
pub(super) fn writer_of(path: &Path) -> Writer {
    let Ok(real) = path.canonicalize() else { return Writer::Unknown };
    let Ok(processes) = std::fs::read_dir("/proc") else { return Writer::Unknown };
    let mut denied = false;
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() {
            continue;
        }
        let fds = match std::fs::read_dir(process.path().join("fd")) {
            Ok(fds) => fds,
            Err(e) => {
                denied |= e.kind() == std::io::ErrorKind::PermissionDenied;
                continue;
            }
        };
        for fd in fds.flatten() {
            if std::fs::read_link(fd.path()).is_ok_and(|to| to == real) && is_writing(&process.path(), &fd.file_name())
            {
                let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Writer::Alive(name.trim().to_string(), pid);
            }
        }
    }
    if denied { Writer::Unknown } else { Writer::None }
}

/// By the access mode of its flags (octal; 1 writes, 2 reads and writes).
fn is_writing(process: &Path, fd: &std::ffi::OsStr) -> bool {
    let Ok(info) = std::fs::read_to_string(process.join("fdinfo").join(fd)) else { return true };
    let flags = info.lines().find_map(|l| l.strip_prefix("flags:")).map(str::trim);
    flags.and_then(|f| u32::from_str_radix(f, 8).ok()).is_none_or(|f| f & 3 != 0)
}
