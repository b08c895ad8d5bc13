//! One writer a case.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::error::WatchError;

/// Holds `FILE.lock` until it is dropped, or its process ends in whatever way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the case at `case`; does not wait.
    ///
    /// # Errors
    /// When another process holds it, or the lock file cannot be made.
    pub fn take(case: &Path) -> Result<Lock, WatchError> {
        let mut path = case.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed = |source| WatchError::Io { path: path.clone(), doing: "cannot make the lock file", source };
        let mut file = crate::disk::private().read(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = Read::by_ref(&mut file).take(32).read_to_string(&mut pid);
                let pid =
                    Some(pid.trim().to_string()).filter(|p| p.bytes().all(|b| b.is_ascii_digit()) && !p.is_empty());
                return Err(WatchError::Locked { path, pid });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // Whatever else has that name is no lock of ours.
        let mut held = Vec::new();
        Read::by_ref(&mut file).take(64).read_to_end(&mut held).map_err(failed)?;
        if held.len() > 32 || !held.trim_ascii().iter().all(u8::is_ascii_digit) {
            return Err(failed(std::io::Error::other("the name is taken by a file that is no lock")));
        }
        // Who holds it, for people; a full disk is no reason not to work.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Lock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_has_it_and_it_comes_free_again() {
        let directory = tempfile::tempdir().unwrap();
        let case = directory.path().join("case.db");
        let first = Lock::take(&case).unwrap();
        assert!(matches!(Lock::take(&case), Err(WatchError::Locked { .. })));
        drop(first);
        Lock::take(&case).unwrap();
    }
}
