//! Keys and values as the model holds them: the first bytes, and how long the whole was.

/// A key or value. Only its first bytes are kept; two that agree in these and in length are taken for equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Value {
    kept: Vec<u8>,
    length: u64,
}

impl Value {
    /// The bytes that are kept.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// How many bytes it has.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many bytes were not kept.
    pub fn cut(&self) -> u64 {
        self.length.saturating_sub(self.kept.len() as u64)
    }

    /// Bytes arrive at its end; `limit` is the most to keep.
    pub(super) fn push(&mut self, bytes: &[u8], limit: usize) {
        // Once something was left out, nothing that follows may close the gap.
        if self.cut() == 0 {
            let room = limit.saturating_sub(self.kept.len()).min(bytes.len());
            self.kept.extend_from_slice(bytes.get(..room).unwrap_or_default());
        }
        self.length = self.length.saturating_add(bytes.len() as u64);
    }

    /// Another value is appended; `limit` is the most to keep.
    pub(super) fn append(&mut self, other: &Value, limit: usize) {
        self.push(&other.kept, limit);
        self.length = self.length.saturating_add(other.cut());
    }

    /// Forgets the bytes, keeps the length.
    pub(super) fn forget(&mut self) {
        self.kept = Vec::new();
    }

    /// What C++'s `std::stoll` makes of it: leading white space, a sign, digits; whatever follows is ignored.
    pub(super) fn number(&self) -> Option<i64> {
        let spaces = self.kept.iter().take_while(|b| matches!(b, b' ' | b'\t'..=b'\r')).count();
        let text = self.kept.get(spaces..).unwrap_or_default();
        let (negative, digits) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, text),
        };
        let mut value: Option<i64> = None;
        for d in digits.iter().take_while(|b| b.is_ascii_digit()) {
            let d = i64::from(d - b'0');
            let shifted = value.unwrap_or(0).checked_mul(10)?;
            value = Some(if negative { shifted.checked_sub(d)? } else { shifted.checked_add(d)? });
        }
        value
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Value { kept: bytes.to_vec(), length: bytes.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<i64> {
        Value::from(text.as_bytes()).number()
    }

    #[test]
    fn numbers_as_stoll_reads_them() {
        assert_eq!(number("5"), Some(5));
        assert_eq!(number(" -12abc"), Some(-12));
        assert_eq!(number("+7"), Some(7));
        assert_eq!(number("-9223372036854775808"), Some(i64::MIN));
        for bad in ["", "v1", "-", " ", "9223372036854775808"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_cut_value_keeps_its_length_and_never_closes_its_gap() {
        let mut v = Value::default();
        v.push(b"abcdef", 4);
        v.push(b"g", 100);
        assert_eq!((v.kept(), v.length(), v.cut()), (&b"abcd"[..], 7, 3));
        let mut w = Value::from(&b"x"[..]);
        w.append(&v, 100);
        assert_eq!((w.kept(), w.length()), (&b"xabcd"[..], 8));
    }
}
