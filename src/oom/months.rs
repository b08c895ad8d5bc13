//! Names of months and weekdays as C libraries print them: English, German, French, Spanish, Italian, Portuguese,
//! Russian; Chinese, Japanese and Korean number their months.

use super::text::one_or_two;

/// What the names of each month begin with, in lower case; the shortest that tells it from the others.
const MONTHS: [&[&str]; 12] = [
    &["jan", "ene", "gen", "янв"],
    &["feb", "fev", "fév", "fev", "фев"],
    &["mar", "mär", "mae", "mrz", "мар"],
    &["apr", "avr", "abr", "апр"],
    &["may", "mai", "mag", "мая", "май"],
    &["jun", "juin", "giu", "июн"],
    &["jul", "juil", "lug", "июл"],
    &["aug", "aoû", "aou", "ago", "авг"],
    &["sep", "set", "сен"],
    &["oct", "okt", "ott", "out", "окт"],
    &["nov", "ноя"],
    &["dec", "dez", "déc", "dic", "дек"],
];

/// Weekdays that are words of ASCII letters.
const WEEKDAYS: [&str; 35] = [
    "mon", "tue", "wed", "thu", "fri", "sat", "sun", "mo", "di", "mi", "do", "fr", "sa", "so", "lun", "mar", "mer",
    "jeu", "ven", "sam", "dim", "mie", "jue", "vie", "sab", "dom", "gio", "seg", "ter", "qua", "qui", "sex", "lu",
    "ma", "me",
];

/// The letters at the start, and what follows; at most 24 bytes.
fn letters(bytes: &[u8]) -> (&[u8], &[u8]) {
    let n = bytes.iter().take(24).take_while(|b| b.is_ascii_alphabetic() || **b >= 0x80).count();
    bytes.split_at_checked(n).unwrap_or((bytes, &[]))
}

/// The name or number (`9月`, `9월`) of a month, and what follows; a point behind the name is taken with it.
pub(super) fn month(bytes: &[u8]) -> Option<(u32, &[u8])> {
    if bytes.first()?.is_ascii_digit() {
        let (month, rest) = one_or_two(bytes)?;
        let rest = rest.strip_prefix("月".as_bytes()).or_else(|| rest.strip_prefix("월".as_bytes()))?;
        return (1..=12).contains(&month).then_some((month, rest));
    }
    let (name, rest) = letters(bytes);
    // What is no UTF-8 is Latin-1.
    let latin = || name.iter().map(|b| char::from(*b)).collect();
    let name = std::str::from_utf8(name).map_or_else(|_| latin(), str::to_string).to_lowercase();
    let at = MONTHS.iter().position(|names| names.iter().any(|n| name.starts_with(n)))?;
    Some((u32::try_from(at).ok()? + 1, rest.strip_prefix(b".").unwrap_or(rest)))
}

/// Month and day in either order, and what follows.
pub(super) fn day_month(bytes: &[u8]) -> Option<(u32, u32, &[u8])> {
    if let Some((month, rest)) = month(bytes) {
        let (day, rest) = one_or_two(rest.trim_ascii_start())?;
        let rest = rest.strip_prefix("日".as_bytes()).or_else(|| rest.strip_prefix("일".as_bytes())).unwrap_or(rest);
        return Some((month, day, rest.strip_prefix(b".").unwrap_or(rest)));
    }
    let (day, rest) = one_or_two(bytes)?;
    let rest = rest.strip_prefix(b".").unwrap_or(rest);
    let (month, rest) = month(rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"-"))?)?;
    Some((month, day, rest))
}

/// What follows a weekday: a known word of ASCII, or a short word of other letters.
pub(super) fn weekday(bytes: &[u8]) -> Option<&[u8]> {
    let (name, rest) = letters(bytes);
    if name.is_empty() || name.len() > 18 {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let ascii = name.is_ascii();
    if ascii && !WEEKDAYS.iter().any(|w| lower == w.as_bytes()) && !(lower.ends_with(b"day") && lower.len() > 5) {
        return None;
    }
    let rest = rest.strip_prefix(b".").unwrap_or(rest);
    let rest = rest.strip_prefix(b",").unwrap_or(rest);
    Some(rest.strip_prefix(b" ")?.trim_ascii_start())
}
