//! Bytes of a capture, unpacked as they are read.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::kind::Compression;
use super::limits::Limits;

/// Compressed bytes asked for at a time.
const INPUT_BUFFER: usize = 256 << 10;

/// Counts what passes, for the expansion limit and for error messages.
pub(super) struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    pub(super) fn new(inner: R) -> (Self, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        (Counted { inner, count: Arc::clone(&count) }, count)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A streaming decoder over `input`. It gives out what it can before it asks for more; input that ends too early is
/// an [`io::ErrorKind::UnexpectedEof`].
///
/// # Errors
/// Those of setting up the decoder (memory).
pub(super) fn decoder(
    compression: Compression,
    input: Box<dyn Read + Send>,
    limits: &Limits,
) -> io::Result<Box<dyn Read + Send>> {
    let input = BufReader::with_capacity(INPUT_BUFFER, input);
    Ok(match compression {
        Compression::Gzip => Box::new(Gzip { state: State::Between(input), members: 0 }),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
            decoder.window_log_max(limits.max_zstd_window_log)?;
            Box::new(decoder)
        }
        Compression::Lz4 => {
            Box::new(Lz4 { frames: lz4_flex::frame::FrameDecoder::new(Tail { inner: input, last: [0; 8] }) })
        }
        Compression::Xz => {
            let flags = liblzma::stream::CONCATENATED;
            let stream = liblzma::stream::Stream::new_stream_decoder(limits.max_xz_memory, flags)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
        }
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
    })
}

/// gzip members one after the other. Unlike flate2's own, it takes what follows the last member (zero padding of a
/// tape or a download) for the end, as the gzip tool does.
struct Gzip<R> {
    state: State<R>,
    members: u64,
}

enum State<R> {
    Between(R),
    Member(flate2::bufread::GzDecoder<R>),
    Done,
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Ok(0),
                State::Between(mut input) => {
                    let first = match input.fill_buf() {
                        Ok(bytes) => bytes.first().copied(),
                        Err(e) => {
                            self.state = State::Between(input);
                            return Err(e);
                        }
                    };
                    if first == Some(0x1f) || (self.members == 0 && first.is_some()) {
                        self.members += 1;
                        self.state = State::Member(flate2::bufread::GzDecoder::new(input));
                    }
                }
                State::Member(mut member) => {
                    let n = member.read(buf);
                    self.state = match n {
                        Ok(0) if !buf.is_empty() => State::Between(member.into_inner()),
                        _ => State::Member(member),
                    };
                    match n {
                        Ok(0) if !buf.is_empty() => {}
                        n => return n,
                    }
                }
            }
        }
    }
}

/// LZ4 frames. lz4_flex takes an input that ends between two blocks for a whole one; the end mark (four zero bytes,
/// perhaps a checksum after) tells them apart.
struct Lz4<R: Read> {
    frames: lz4_flex::frame::FrameDecoder<Tail<R>>,
}

struct Tail<R> {
    inner: R,
    last: [u8; 8],
}

impl<R: Read> Read for Tail<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        for &byte in buf.get(n.saturating_sub(8)..n).unwrap_or_default() {
            self.last.rotate_left(1);
            self.last[7] = byte;
        }
        Ok(n)
    }
}

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            // A zero is the end of a frame, not of the input.
            let n = self.frames.read(buf)?;
            if n > 0 || buf.is_empty() {
                return Ok(n);
            }
            let tail = self.frames.get_mut();
            if tail.inner.fill_buf()?.is_empty() {
                let mark =
                    tail.last.first_chunk::<4>() == Some(&[0; 4]) || tail.last.last_chunk::<4>() == Some(&[0; 4]);
                return if mark { Ok(0) } else { Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no end mark")) };
            }
        }
    }
}

/// The content of the file at `path`, through one layer of compression: for logs, which come packed as captures do.
///
/// # Errors
/// The system's, from opening the file or setting up a decoder.
pub fn unpacked(path: &std::path::Path, limits: &Limits) -> io::Result<Box<dyn Read + Send>> {
    unpacked_from(std::fs::File::open(path)?, limits)
}

/// The same of what is open already.
///
/// # Errors
/// As of [`unpacked`].
pub fn unpacked_from(mut input: impl Read + Send + 'static, limits: &Limits) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::new();
    Read::by_ref(&mut input).take(super::SNIFF_LENGTH as u64).read_to_end(&mut head)?;
    let kind = super::sniff(&head);
    let whole = io::Cursor::new(head).chain(input);
    match kind {
        super::Kind::Compressed(compression) => {
            Ok(Box::new(decoder(compression, Box::new(whole), limits)?.take(limits.max_output)))
        }
        _ => Ok(Box::new(whole)),
    }
}
