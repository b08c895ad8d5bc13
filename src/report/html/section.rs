//! How a section of the page begins and ends.

use super::markup::Html;

/// Columns of a file's name; the page wraps it.
pub(super) const NAME: usize = 200;

/// The head of a table; script makes its cells buttons that sort.
pub(super) fn head(h: &mut Html, class: &str, columns: &[&str]) {
    h.raw("<div class=\"scroll\">").open("table", &[("class", class)]).raw("<thead><tr>");
    for column in columns {
        h.leaf("th", &[("scope", "col")], column);
    }
    h.raw("</tr></thead>\n<tbody>\n");
}

pub(super) fn foot(h: &mut Html) {
    h.raw("</tbody></table></div>\n");
}

/// Says what a long list leaves out.
pub(super) fn rest(h: &mut Html, all: usize, shown: usize, what: &str) {
    if all > shown {
        let more = crate::report::size::grouped((all - shown) as u64);
        h.leaf("p", &[("class", "muted")], &format!("and {more} more {what}: --format csv or json has all of them"));
    }
}
