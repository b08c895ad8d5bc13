//! Python pickles as data: builds the tree of values that a pickle describes and executes nothing.
//!
//! Classes stay names, calls stay (class, arguments). Every opcode takes at least one byte, so nodes, stack and
//! memo are bounded by the length of the input; nothing here recurses. Opcodes: protocols 2 to 5 as CPython's
//! pickler writes them for plain objects; any other one is an error.

use std::collections::BTreeMap;

use thiserror::Error;

/// Fields of an object that are looked through: those read here have a dozen at most, a hostile one has thousands, and
/// is named thousands of times.
const FIELDS: usize = 32;

/// Index of a node.
pub(super) type Id = usize;

/// One value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    None,
    Bool(bool),
    Int(i64),
    Float,
    Text(String),
    Bytes(Vec<u8>),
    /// A tuple, list, set or frozen set.
    Items(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function: the node of its name, the module left out.
    Global(Id),
    /// What calling `class` with `arguments` would make, and the state that would be put in.
    Object {
        class: Id,
        arguments: Id,
        state: Option<Id>,
    },
}

/// Why bytes are not read as a pickle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PickleError {
    /// The bytes end before the pickle does.
    #[error("the pickle ends at byte {0}, without STOP")]
    Cut(usize),
    /// An opcode that a rendezvous state has no use for.
    #[error("opcode {opcode:#04x} at byte {at} of the pickle is none that plain data needs")]
    Opcode {
        /// The byte.
        opcode: u8,
        /// Where.
        at: usize,
    },
    /// The stack does not hold what the opcode works on.
    #[error("opcode {opcode:#04x} at byte {at} of the pickle finds no fitting value on the stack")]
    Stack {
        /// The byte.
        opcode: u8,
        /// Where.
        at: usize,
    },
}

/// A pickle, read.
#[derive(Debug)]
pub(super) struct Pickle {
    nodes: Vec<Node>,
    top: Id,
}

impl Pickle {
    pub(super) fn parse(bytes: &[u8]) -> Result<Pickle, PickleError> {
        Machine { bytes, at: 0, nodes: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: BTreeMap::new() }.run()
    }

    /// What the pickle describes.
    pub(super) fn top(&self) -> Id {
        self.top
    }

    pub(super) fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// The value under a text key of a dictionary, or of an object's state.
    pub(super) fn get(&self, id: Id, name: &str) -> Option<Id> {
        let pairs = match self.node(id)? {
            Node::Dict(pairs) => pairs,
            Node::Object { state: Some(state), .. } => match self.node(*state)? {
                Node::Dict(pairs) => pairs,
                _ => return None,
            },
            _ => return None,
        };
        let named = |key: &Id| matches!(self.node(*key), Some(Node::Text(t)) if t == name);
        pairs.iter().take(FIELDS).find(|(key, _)| named(key)).map(|(_, value)| *value)
    }

    pub(super) fn int(&self, id: Id) -> Option<i64> {
        if let Node::Int(n) = self.node(id)? { Some(*n) } else { None }
    }

    pub(super) fn bool(&self, id: Id) -> Option<bool> {
        if let Node::Bool(b) = self.node(id)? { Some(*b) } else { None }
    }

    pub(super) fn text(&self, id: Id) -> Option<&str> {
        if let Node::Text(t) = self.node(id)? { Some(t) } else { None }
    }

    /// Whether it is a class or function of that name.
    pub(super) fn is_global(&self, id: Id, name: &str) -> bool {
        matches!(self.node(id), Some(Node::Global(text)) if self.text(*text) == Some(name))
    }

    pub(super) fn items(&self, id: Id) -> &[Id] {
        if let Some(Node::Items(items)) = self.node(id) { items } else { &[] }
    }

    pub(super) fn pairs(&self, id: Id) -> &[(Id, Id)] {
        if let Some(Node::Dict(pairs)) = self.node(id) { pairs } else { &[] }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: BTreeMap<u32, Id>,
}

impl<'a> Machine<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], PickleError> {
        let end = self.at.checked_add(n).ok_or(PickleError::Cut(self.at))?;
        let bytes = self.bytes.get(self.at..end).ok_or(PickleError::Cut(self.bytes.len()))?;
        self.at = end;
        Ok(bytes)
    }

    /// A little-endian integer of up to eight bytes, zero-extended.
    fn number(&mut self, width: usize) -> Result<u64, PickleError> {
        Ok(self.take(width)?.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    fn counted(&mut self, width: usize) -> Result<&'a [u8], PickleError> {
        let n = self.number(width)?;
        self.take(usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn line(&mut self) -> Result<&'a [u8], PickleError> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let n = rest.iter().position(|b| *b == b'\n').ok_or(PickleError::Cut(self.bytes.len()))?;
        let line = self.take(n)?;
        self.take(1)?;
        Ok(line)
    }

    fn push(&mut self, node: Node) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }

    fn text(&mut self, bytes: &[u8]) {
        self.push(Node::Text(String::from_utf8_lossy(bytes).into_owned()));
    }

    /// The values above the topmost mark, which is taken away.
    fn above_mark(&mut self) -> Option<Vec<Id>> {
        let mark = self.marks.pop().filter(|m| *m <= self.stack.len())?;
        Some(self.stack.split_off(mark))
    }

    /// Puts `new` into the list, set or dictionary on top of the stack.
    fn fill(&mut self, new: &[Id]) -> Option<()> {
        match self.nodes.get_mut(*self.stack.last()?)? {
            Node::Items(items) => items.extend(new),
            Node::Dict(pairs) => pairs.extend(new.chunks_exact(2).filter_map(|p| Some((*p.first()?, *p.get(1)?)))),
            // A class with items of its own: passed over.
            Node::Object { .. } => {}
            _ => return None,
        }
        Some(())
    }

    fn tuple(&mut self, n: usize) -> Option<()> {
        let items = self.stack.split_off(self.stack.len().checked_sub(n)?);
        self.push(Node::Items(items));
        Some(())
    }

    fn run(mut self) -> Result<Pickle, PickleError> {
        loop {
            let at = self.at;
            let opcode = self.number(1)? as u8;
            let done = self.step(opcode, at)?;
            match done {
                Some(Some(top)) => return Ok(Pickle { nodes: self.nodes, top }),
                Some(None) => {}
                None => return Err(PickleError::Stack { opcode, at }),
            }
        }
    }

    /// One opcode. `Some(Some(top))` at STOP; `None` when the stack does not fit.
    fn step(&mut self, opcode: u8, at: usize) -> Result<Option<Option<Id>>, PickleError> {
        let fits = match opcode {
            0x80 => self.take(1).map(|_| Some(()))?, // PROTO
            0x95 => self.take(8).map(|_| Some(()))?, // FRAME
            b'.' => return Ok(self.stack.pop().map(Some)),
            b'(' => {
                self.marks.push(self.stack.len());
                Some(())
            }
            b'0' => self.stack.pop().map(|_| ()),
            b'N' | 0x88 | 0x89 | b'G' | b'K' | b'M' | b'J' | 0x8a | 0x8c | b'X' | 0x8d | b'C' | b'B' | 0x8e => {
                self.scalar(opcode)?;
                Some(())
            }
            b')' | b']' | 0x8f => {
                self.push(Node::Items(Vec::new()));
                Some(())
            }
            b'}' => {
                self.push(Node::Dict(Vec::new()));
                Some(())
            }
            0x85 => self.tuple(1),
            0x86 => self.tuple(2),
            0x87 => self.tuple(3),
            b't' | 0x91 => self.above_mark().map(|items| self.push(Node::Items(items))), // TUPLE, FROZENSET
            b'a' => self.stack.pop().and_then(|item| self.fill(&[item])),                // APPEND
            b's' => self.pop2().and_then(|(key, value)| self.fill(&[key, value])),       // SETITEM
            b'e' | b'u' | 0x90 => self.above_mark().and_then(|new| self.fill(&new)),     // APPENDS, SETITEMS, ADDITEMS
            b'q' => self.number(1).map(|n| self.memoize(n as u32))?,
            b'r' => self.number(4).map(|n| self.memoize(n as u32))?,
            0x94 => self.memoize(self.memo.len() as u32),
            b'h' => self.number(1).map(|n| self.recall(n as u32))?,
            b'j' => self.number(4).map(|n| self.recall(n as u32))?,
            b'c' => {
                self.line()?;
                let name = self.line()?;
                self.text(name);
                if let Some(name) = self.stack.pop() {
                    self.push(Node::Global(name));
                }
                Some(())
            }
            0x93 => self.pop2().map(|(_, name)| self.push(Node::Global(name))),
            // NEWOBJ and REDUCE: what they would call is noted, never called.
            0x81 | b'R' => {
                self.pop2().map(|(class, arguments)| self.push(Node::Object { class, arguments, state: None }))
            }
            b'b' => self.stack.pop().and_then(|new| match self.nodes.get_mut(*self.stack.last()?)? {
                Node::Object { state, .. } => {
                    *state = Some(new);
                    Some(())
                }
                _ => None,
            }),
            _ => return Err(PickleError::Opcode { opcode, at }),
        };
        Ok(fits.map(|()| None))
    }

    fn scalar(&mut self, opcode: u8) -> Result<(), PickleError> {
        let node = match opcode {
            b'N' => Node::None,
            0x88 | 0x89 => Node::Bool(opcode == 0x88),
            b'G' => {
                self.take(8)?;
                Node::Float
            }
            b'K' => Node::Int(self.number(1)? as i64),
            b'M' => Node::Int(self.number(2)? as i64),
            b'J' => Node::Int(i64::from(self.number(4)? as u32 as i32)),
            0x8a => {
                let raw = self.counted(1)?;
                let sign = if raw.last().is_some_and(|b| b & 0x80 != 0) { -1i64 } else { 0 };
                Node::Int(raw.iter().rev().fold(sign, |n, b| n << 8 | i64::from(*b)))
            }
            0x8c | b'X' | 0x8d => {
                let width = if opcode == 0x8c {
                    1
                } else if opcode == b'X' {
                    4
                } else {
                    8
                };
                let bytes = self.counted(width)?;
                self.text(bytes);
                return Ok(());
            }
            _ => {
                let width = if opcode == b'C' {
                    1
                } else if opcode == b'B' {
                    4
                } else {
                    8
                };
                Node::Bytes(self.counted(width)?.to_vec())
            }
        };
        self.push(node);
        Ok(())
    }

    fn pop2(&mut self) -> Option<(Id, Id)> {
        let second = self.stack.pop()?;
        Some((self.stack.pop()?, second))
    }

    fn memoize(&mut self, index: u32) -> Option<()> {
        self.memo.insert(index, *self.stack.last()?);
        Some(())
    }

    fn recall(&mut self, index: u32) -> Option<()> {
        self.stack.push(*self.memo.get(&index)?);
        Some(())
    }
}
