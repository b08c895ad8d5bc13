//! Sizes as people read them: with both readings, where they mix them up.

/// `962696183808` → `962 696 183 808`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(c);
    }
    text
}

/// A size with both of its readings: `962 696 183 808 bytes (0.96 TB, 0.876 TiB)`. Small ones need none: `43 bytes`.
pub fn bytes(n: u64) -> String {
    match n {
        1 => "1 byte".to_string(),
        0..=9_999 => format!("{} bytes", grouped(n)),
        _ => format!("{} bytes ({})", grouped(n), readings(n)),
    }
}

/// Both readings alone: `0.96 TB, 0.876 TiB`.
pub fn readings(n: u64) -> String {
    format!("{}, {}", scaled(n, 1000.0, ["B", "kB", "MB", "GB", "TB", "PB", "EB"], 2), {
        scaled(n, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], 3)
    })
}

/// `n` in the largest unit of which there is at least a half.
fn scaled(n: u64, base: f64, units: [&str; 7], decimals: usize) -> String {
    let mut value = n as f64;
    let mut unit = units[0];
    for next in &units[1..] {
        if value < base / 2.0 {
            break;
        }
        value /= base;
        unit = next;
    }
    let decimals = match value {
        v if v >= 100.0 || unit == units[0] => 0,
        v if v >= 10.0 => 1,
        _ => decimals,
    };
    format!("{value:.decimals$} {unit}")
}
