//! JSON: one object a line, or one document over many lines (`kubectl -o json`, `docker inspect`, `json-pretty`).
//!
//! Members of a list are read one at a time, so that a list of ten thousand pods is never held as a tree.

use super::bounded::{Bounded, MAX_VALUES};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// The largest JSON text that is read, in bytes.
pub(crate) const MAX_DOCUMENT: usize = 32 << 20;

/// Calls `each` for every object of the document: the members of a top-level array, of an `items` array, or the
/// document itself.
///
/// # Errors
/// Those of the JSON parser; objects before the fault have been handed on.
pub(crate) fn objects(text: &[u8], each: &mut dyn FnMut(&Value)) -> Result<(), serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    Objects { each, list: true }.deserialize(&mut parser)?;
    parser.end()
}

struct Objects<'a> {
    each: &'a mut dyn FnMut(&Value),
    /// Whether this is the document, whose `items` are a list.
    list: bool,
}

impl<'de> DeserializeSeed<'de> for Objects<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Objects<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element_seed(Bounded(&mut { MAX_VALUES }))? {
            (self.each)(&value);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut object = serde_json::Map::new();
        let mut left = MAX_VALUES;
        while let Some(key) = map.next_key::<String>()? {
            if self.list && key == "items" {
                map.next_value_seed(Objects { each: &mut *self.each, list: false })?;
            } else {
                object.insert(key, map.next_value_seed(Bounded(&mut left))?);
            }
        }
        (self.each)(&Value::Object(object));
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_arrays_and_single_objects_are_walked() {
        for (text, want) in [
            (&br#"{"kind":"List","items":[{"a":1},{"a":2}]}"#[..], 3),
            (br#"[{"a":1},{"a":2}]"#, 2),
            (br#"{"a":{"items":[1]}}"#, 1),
            (b"[]", 0),
            (b"7", 0),
            (br#"{"items":"none"}"#, 1),
        ] {
            let mut n = 0;
            objects(text, &mut |_| n += 1).unwrap();
            assert_eq!(n, want, "{}", String::from_utf8_lossy(text));
        }
        assert!(objects(b"{\"a\":", &mut |_| ()).is_err());
        assert!(objects(&b"[".repeat(100_000), &mut |_| ()).is_err());
    }
}
