//! Packets on disk within a budget: the newest ones, and those around findings.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::capture::{Packet, Writer};

/// Parts that the budget is divided into.
const PARTS: u64 = 16;

/// How much may be written.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes of all files together.
    pub max: u64,
    /// Bytes that must stay free in the file system.
    pub min_free: u64,
}

/// Files of one interface, `INTERFACE-NUMBER.pcapng`; those around findings are `kept-INTERFACE-NUMBER.pcapng`.
pub struct Ring {
    directory: PathBuf,
    name: String,
    budget: Budget,
    number: u64,
    open: Option<(Writer<BufWriter<File>>, PathBuf, u64)>,
    /// Files that go when room is needed, the oldest first, with their sizes.
    old: VecDeque<(PathBuf, u64)>,
    /// Bytes of files that stay.
    kept: u64,
    /// Keep the file that is open once it is full.
    keep: bool,
    /// Packets that were not written, because the budget is used up by what is kept or the disk is nearly full.
    left_out: u64,
}

impl Ring {
    /// A ring in `directory` for packets of the interface `name`.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new(directory: &Path, name: &str, budget: Budget) -> io::Result<Ring> {
        crate::disk::create_dir_all(directory)?;
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
        let mut ring = Ring {
            directory: directory.to_owned(),
            name,
            budget,
            number: 0,
            open: None,
            old: VecDeque::new(),
            kept: 0,
            keep: false,
            left_out: 0,
        };
        ring.adopt()?;
        Ok(ring)
    }

    /// Files of an earlier run count.
    fn adopt(&mut self) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.directory)?.flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(stem) = file.strip_suffix(".pcapng") else { continue };
            let kept = stem.strip_prefix("kept-");
            let number = kept.unwrap_or(stem).strip_prefix(&*self.name).and_then(|n| n.strip_prefix('-'));
            let Some(number) = number.and_then(|n| n.parse::<u64>().ok()) else { continue };
            let size = entry.metadata()?.len();
            self.number = self.number.max(number);
            if kept.is_some() {
                self.kept += size;
            } else {
                found.push((number, entry.path(), size));
            }
        }
        found.sort();
        self.old = found.into_iter().map(|(_, path, size)| (path, size)).collect();
        Ok(())
    }

    fn part(&self) -> u64 {
        (self.budget.max / PARTS).max(1 << 16)
    }

    /// Writes a packet, or counts it as left out.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&mut self, packet: &Packet<'_>, snaplen: u32, interface: &str) -> io::Result<()> {
        if self.open.is_none() && !self.begin()? {
            self.left_out += 1;
            return Ok(());
        }
        let part = self.part();
        if let Some((writer, _, size)) = &mut self.open {
            writer.write(packet, snaplen, interface, None)?;
            *size += packet.data.len() as u64 + 36;
            if *size >= part {
                self.end()?;
            }
        }
        Ok(())
    }

    /// Makes room and opens the next file; `false` where there is no room to be made.
    fn begin(&mut self) -> io::Result<bool> {
        let part = self.part();
        let mut held: u64 = self.kept + self.old.iter().map(|(_, size)| size).sum::<u64>();
        while held + part > self.budget.max || free(&self.directory).is_some_and(|f| f < self.budget.min_free + part) {
            let Some((path, size)) = self.old.pop_front() else { return Ok(false) };
            std::fs::remove_file(&path)?;
            held -= size;
        }
        self.number += 1;
        let path = self.directory.join(format!("{}-{:08}.pcapng", self.name, self.number));
        let file = BufWriter::new(crate::disk::private().create_new(true).open(&path)?);
        self.open = Some((Writer::new(file, "rdzvscope live")?, path, 0));
        Ok(true)
    }

    /// Ends the file that is open.
    fn end(&mut self) -> io::Result<()> {
        let Some((writer, path, _)) = self.open.take() else { return Ok(()) };
        writer.finish()?.flush()?;
        let size = std::fs::metadata(&path)?.len();
        self.old.push_back((path, size));
        if std::mem::take(&mut self.keep) {
            self.keep_latest(1)?;
        }
        Ok(())
    }

    fn keep_latest(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let Some((path, size)) = self.old.pop_back() else { break };
            if let Some(name) = path.file_name() {
                std::fs::rename(&path, self.directory.join(format!("kept-{}", name.to_string_lossy())))?;
            }
            self.kept += size;
        }
        Ok(())
    }

    /// Something was found just now: the file before the one that is open stays, and so will this one.
    ///
    /// # Errors
    /// The file system's.
    pub fn found(&mut self) -> io::Result<()> {
        self.keep_latest(1)?;
        self.keep = true;
        self.flush()
    }

    /// Puts what was written so far on disk: by ending the file, for a packet must not stand in two.
    ///
    /// # Errors
    /// The file system's.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(_, _, size)| *size > 0) { self.end() } else { Ok(()) }
    }

    /// Packets that were not written.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Bytes that are free for this user in the file system of a directory.
fn free(directory: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(directory).ok()?;
    Some(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Limits, LinkType, Reader};
    use crate::time::Timestamp;

    fn packet(number: u64, data: &[u8]) -> Packet<'_> {
        let (time, original_length) = (Timestamp(number as i64), data.len() as u32);
        Packet { number, time, link_type: LinkType::ETHERNET, interface: 0, original_length, data }
    }

    fn files(directory: &Path) -> Vec<(String, u64)> {
        let mut all: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .flatten()
            .map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().len()))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn the_budget_holds_and_what_surrounds_a_finding_stays() {
        let place = tempfile::tempdir().unwrap();
        let budget = Budget { max: 2 << 20, min_free: 0 };
        let mut ring = Ring::new(place.path(), "eth0", budget).unwrap();
        let data = [7u8; 1000];
        for i in 1..=10_000 {
            ring.write(&packet(i, &data), 0, "eth0").unwrap();
            if i == 500 {
                ring.found().unwrap();
            }
            if i % 1000 == 0 {
                assert!(files(place.path()).iter().map(|f| f.1).sum::<u64>() <= budget.max);
            }
        }
        ring.flush().unwrap();
        let kept: Vec<_> = files(place.path()).into_iter().filter(|f| f.0.starts_with("kept-")).collect();
        let mut seen = Vec::new();
        for (name, _) in &kept {
            let mut reader = Reader::open(&place.path().join(name), &Limits::default()).unwrap();
            reader.each(|p| seen.push(p.time.0)).unwrap();
        }
        seen.sort_unstable();
        assert!(seen.contains(&500) && seen.contains(&400), "{seen:?}");
        // A later run goes on with the same files, and uses no name twice.
        let mut again = Ring::new(place.path(), "eth0", budget).unwrap();
        assert_eq!(again.number, ring.number);
        again.write(&packet(1, &data), 0, "eth0").unwrap();
        again.flush().unwrap();
        assert!(files(place.path()).iter().map(|f| f.1).sum::<u64>() <= budget.max);
    }

    #[test]
    fn a_full_disk_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let mut ring = Ring::new(place.path(), "any", Budget { max: 1 << 20, min_free: u64::MAX / 4 }).unwrap();
        ring.write(&packet(1, b"x"), 0, "any").unwrap();
        assert_eq!((ring.left_out(), files(place.path()).len()), (1, 0));
    }
}
