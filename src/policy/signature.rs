//! Suricata and Zeek: what tells that somebody spoke to a rendezvous who should not have.
//!
//! Both look for the first request of a connection that declares between 1 GiB and 256 TiB: less hurts few hosts, more is
//! beyond the address space and refused. They see that it was sent, not what the server did with it.

use std::fmt::Write as _;

use super::head::comment;
use super::nets::family;
use super::product::Product;
use super::scope::Scope;
use crate::net::Network;

/// First of the numbers of the rules: in the range that is left to local rules.
const SID: u32 = 1_295_001;

/// How many bytes a client may have sent when a request is still taken for its first, in Suricata, which does not say where a
/// packet stands in its stream.
const EARLY: u32 = 256;

/// Rules for `rule-files`.
pub(super) fn suricata(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::Suricata,
        scope,
        &[
            "it sees and does not prevent. Of connections whose start the sensor did not see, and of clients that send a request \
in pieces, it sees nothing.",
        ],
    );
    let _ = writeln!(out, "# Use: add {} to rule-files, try it with suricata -T", Product::Suricata.file());
    let ports = bracketed(&scope.all_ports().ranges().iter().map(|(f, t)| range(*f, *t, ':')).collect::<Vec<_>>());
    let mut rule = 0;
    let mut say = |out: &mut String, header: &str, message: &str, what: &str, class: &str| {
        let _ = writeln!(
            out,
            "alert tcp {header} (msg:\"rdzvscope {message}\"; {what}; classtype:{class}; sid:{}; rev:1; metadata:created_at {};)",
            SID + rule,
            scope.date.replace('-', "_")
        );
        rule += 1;
    };
    // With a size of the packet the rule looks at packets alone: looking at streams too would tell each twice.
    let early = format!("flow:established,to_server; stream_size:client,<,{EARLY}; dsize:>8");
    // The length that a client of 2.2 and later seems to declare is the magic number that stores of 2.2 and later ask for.
    say(
        &mut out,
        &format!("any any -> any {ports}"),
        "first request to a rendezvous store declares 1 GiB or more",
        &format!(
            "{early}; content:!\"|00 CE F7 85 3C|\"; depth:5; content:\"|00 00|\"; offset:7; depth:2; byte_test:1,<=,12,0; byte_test:8,>=,1073741824,1,little"
        ),
        "attempted-dos",
    );
    if scope.old_stores_only {
        say(
            &mut out,
            &format!("any any -> any {ports}"),
            "client of PyTorch 2.2 or later at a store of 2.1 or older",
            &format!(
                "flow:established,to_server; stream_size:client,<,{EARLY}; dsize:>4; content:\"|00 CE F7 85 3C|\"; depth:5"
            ),
            "misc-attack",
        );
    }
    say(
        &mut out,
        &format!("any any -> any {ports}"),
        "RDP greeting at a rendezvous port",
        &format!("{early}; content:\"|03 00 00|\"; depth:3; content:\"|E0 00 00|\"; offset:5; depth:3"),
        "attempted-recon",
    );
    if !scope.scanners.is_empty() || !scope.named.is_empty() {
        for v4 in [true, false] {
            let members = family(&scope.members, v4);
            let scanners = family(&scope.scanners, v4);
            let who = match (scope.scanners.is_empty(), members.is_empty()) {
                (false, _) if scanners.is_empty() => continue,
                (false, _) => bracketed(&texts(&scanners)),
                // Negated, a list of one family still means addresses of that family alone.
                (true, false) => format!("!{}", bracketed(&texts(&members))),
                (true, true) => if v4 { "0.0.0.0/0" } else { "::/0" }.to_owned(),
            };
            say(
                &mut out,
                &format!("{who} any -> any {ports}"),
                "connection to a rendezvous port from outside the training hosts",
                "flow:to_server; flags:S,CE; threshold:type limit, track by_src, count 1, seconds 60",
                "attempted-recon",
            );
        }
    }
    out
}

fn range(from: u16, to: u16, sign: char) -> String {
    if from == to { from.to_string() } else { format!("{from}{sign}{to}") }
}

fn bracketed(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

fn texts(networks: &[Network]) -> Vec<String> {
    networks.iter().map(Network::to_string).collect()
}

/// Any byte: `.` is none that ends a line.
const ANY: &str = "[\\x00-\\xff]";

/// The first request of a stream, its length within the bounds: at least 1 GiB is a byte of the upper half that is not zero, or
/// 0x40 and more in the highest of the lower half; below 256 TiB are two zeros at the end.
fn claim() -> String {
    let lengths =
        format!("({ANY}{{3}}[\\x40-\\xff]{ANY}{{2}}|{ANY}{{4}}[\\x01-\\xff]{ANY}|{ANY}{{5}}[\\x01-\\xff])\\x00\\x00");
    // A client of 2.2 and later begins with the byte 00 and a magic number, of which the first byte is ce.
    let set = format!(
        "\\x00([\\x00-\\xcd\\xcf-\\xff]{ANY}{{2}}[\\x40-\\xff]{ANY}{{2}}|[\\x00-\\xcd\\xcf-\\xff]{ANY}{{3}}[\\x01-\\xff]{ANY}|[\\x00-\\xcd\\xcf-\\xff]{ANY}{{4}}[\\x01-\\xff])\\x00\\x00"
    );
    format!("/^({set}|[\\x01-\\x0c]{lengths})/")
}

/// Signatures for `zeek -s`.
pub(super) fn zeek(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::Zeek,
        scope,
        &["it sees and does not prevent. Of connections whose start the sensor did not see it sees nothing."],
    );
    let _ = writeln!(out, "# Use: zeek -s {} (or @load-sigs); matches are in signatures.log", Product::Zeek.file());
    let conditions = ports(scope);
    let mut say = |name: &str, what: &str, event: &str| {
        // Each condition of a signature has to hold, so that each range of ports takes a signature of its own.
        for (i, condition) in conditions.iter().enumerate() {
            let suffix = if conditions.len() > 1 { format!("-{}", i + 1) } else { String::new() };
            let _ = writeln!(
                out,
                "\nsignature rdzvscope-{name}{suffix} {{\n  ip-proto == tcp\n{condition}{what}  event \"rdzvscope: {event}\"\n}}"
            );
        }
    };
    let payload = |regex: &str| format!("  tcp-state established,originator\n  payload {regex}\n");
    say("claim", &payload(&claim()), "first request to a rendezvous store declares 1 GiB or more");
    if scope.old_stores_only {
        say(
            "newer-client",
            &payload("/^\\x00\\xce\\xf7\\x85\\x3c/"),
            "client of PyTorch 2.2 or later at a store of 2.1 or older",
        );
    }
    say("rdp", &payload(&format!("/^\\x03\\x00\\x00{ANY}{{2}}\\xe0\\x00\\x00/")), "RDP greeting at a rendezvous port");
    if !scope.scanners.is_empty() || !scope.named.is_empty() {
        let (people, sign) = if scope.scanners.is_empty() { (&scope.members, "!=") } else { (&scope.scanners, "==") };
        for (v4, name) in [(true, "outsider"), (false, "outsider6")] {
            let people = family(people, v4);
            if !people.is_empty() {
                let addresses: Vec<String> = people
                    .iter()
                    .map(|n| if v4 { n.to_string() } else { format!("[{}]", n.ends().0) + &length(n) })
                    .collect();
                say(
                    name,
                    &format!("  src-ip {sign} {}\n", addresses.join(",")),
                    "connection to a rendezvous port from outside the training hosts",
                );
            }
        }
    }
    out
}

/// The length of a network's prefix as it is written behind an address in brackets.
fn length(network: &Network) -> String {
    network.to_string().split_once('/').map(|(_, l)| format!("/{l}")).unwrap_or_default()
}

/// Conditions on the port, one for each signature.
fn ports(scope: &Scope) -> Vec<String> {
    let (single, ranges): (Vec<_>, Vec<_>) = scope.all_ports().ranges().into_iter().partition(|(f, t)| f == t);
    let mut all = Vec::new();
    if !single.is_empty() {
        let list: Vec<String> = single.iter().map(|p| p.0.to_string()).collect();
        all.push(format!("  dst-port == {}\n", list.join(",")));
    }
    all.extend(ranges.iter().map(|(from, to)| format!("  dst-port >= {from}\n  dst-port <= {to}\n")));
    all
}
