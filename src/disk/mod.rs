//! Files on disk: what an output must not overwrite, how an output gets into its place, how small files are read.
//!
//! All outputs of all commands go through this room, so that what holds for one holds for all.

mod guard;
mod place;
mod small;

pub use guard::{Overwrites, Protected, what_must_stay};
pub use place::{NewFile, create_dir_all, private, set_mode};
pub use small::{SMALL_FILE, read_small, require_regular_file};
