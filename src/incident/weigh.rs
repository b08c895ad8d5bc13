//! The verdict on one kill with a trigger, and its reasons: facts that agree, facts that contradict, assumptions.

use super::clocks::Whose;
use super::memory_climb::Says;
use super::summary::clock;
use super::trigger::{Fit, Trigger, claimed};
use super::{Evidence, HostPart, kill_of};
use crate::clock::{death_misses, longest_to_die};
use crate::finding::{Effect, Finding};
use crate::oom::{OomEvent, OomKind, TimeSource, ToldBy};
use crate::protocol::listener::{Death, NAMED_BY_A_KILL};
use crate::size::{bytes, readings};
use crate::time::Timestamp;
use crate::vocabulary::{Acknowledged, Outcome, Verdict};

/// A silence shorter than this is none.
const SILENT_SECONDS: f64 = 1.0;
/// A claim that is the last straw kills within this time and that of filling it at half a gigabyte a second.
const STRAW_SECONDS: f64 = 2.0;

/// What is weighed of one kill.
#[derive(Default)]
struct Scales {
    /// Facts that agree, less those that contradict.
    agree: i32,
    /// Something is assumed, or contradicts: the verdict is no more than probable.
    held: bool,
    reasons: Vec<String>,
}

impl Scales {
    fn fact(&mut self, reason: String) {
        self.agree += 1;
        self.reasons.push(reason);
    }

    fn against(&mut self, reason: String) {
        self.agree -= 1;
        self.held = true;
        self.reasons.push(reason);
    }

    fn hold(&mut self, reason: String) {
        self.held = true;
        self.reasons.push(reason);
    }

    fn say(&mut self, reason: String) {
        self.reasons.push(reason);
    }
}

/// Weighs a kill against its trigger. Independent facts make it sure; an assumption holds it back.
pub(super) fn weigh(e: &Evidence<'_>, part: &mut HostPart, event: &OomEvent, t: &Trigger, f: &Finding) {
    let mut s = Scales::default();
    let process = event.process.as_deref().unwrap_or("a process");
    let pid = event.pid.map_or(String::new(), |p| format!(" (pid {p})"));
    let claim = claimed(t, f);
    s.say(format!("the kernel killed {process}{pid} {} the claim of {}", later(t), bytes(claim)));
    delivery(&mut s, t, f);
    named(&mut s, e, f);
    size(&mut s, event, t, claim);
    silence(e, &mut s, event, f);
    let ended = death_of(e, f);
    death(&mut s, ended.map(|d| d.time).or(part.died), event);
    if event.invoked_by.as_deref() == Some("pt_tcpstore") || event.process.as_deref() == Some("pt_tcpstore") {
        s.fact("the thread that ran out of memory is the store's own (pt_tcpstore)".to_string());
    }
    dialect(&mut s, t, f, claim);
    if event.told_by == Some(ToldBy::Process) {
        let writer = event.writer.as_deref().unwrap_or("a process");
        s.hold(format!("only {writer} tells of the kill, in a line that any local user could have written"));
    }
    // A year that the captures give is tried by what they show, as every assumption; one of the file's date is a guess.
    if event.time_kind == TimeSource::DerivedYear && event.time_source.contains("guessed") {
        s.hold(format!("the line of the kill has no year ({})", event.time_source));
    } else if event.time_is_assumed && (t.fit != Fit::Fits || part.died.is_none()) {
        s.hold(format!("the time of the kill rests on an assumption ({})", event.time_source));
    }
    if event.alternative_time.is_some() {
        s.say(format!("the time of the kill: {} ({})", event.time_source, clock(event.time)));
    }
    clocks(e, &mut s, part, event);
    let beside = event.uncertainty_nanos as f64 / 1e9;
    if let Some((text, says)) = super::memory_climb::weighed(e, &part.host, event.time, Some(f.time), beside) {
        match says {
            Says::For => s.fact(text),
            Says::Against => s.against(text),
            Says::Nothing => s.say(text),
        }
    }
    s.reasons.extend(ended.as_ref().and_then(lost));
    s.reasons.extend(cgroup(event));
    part.verdict = match (s.agree, s.held) {
        (2.., false) => Verdict::Confirmed,
        (1.., _) => Verdict::Probable,
        _ => Verdict::Possible,
    };
    part.reasons = s.reasons;
}

/// `0.14 s after`, `28.7 s (± 1 s) after`, `at most 1.9 s after`.
fn later(t: &Trigger) -> String {
    let span = |seconds: f64| if seconds < 0.95 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") };
    match t.lag_uncertainty {
        u if u < 0.05 => format!("{} after", span(t.lag)),
        u if t.lag - u <= 0.0 => format!("at most {} after", span(((t.lag + u) * 100.0).ceil() / 100.0)),
        u => format!("{} (± {u:.1} s) after", span(t.lag)),
    }
}

/// What only the kill's own size names a store is no second fact.
fn named(s: &mut Scales, e: &Evidence<'_>, f: &Finding) {
    if e.listener(f.target).is_some_and(|l| l.named_by.as_deref() == Some(NAMED_BY_A_KILL)) {
        s.hold(format!(
            "that a store listens on port {} is told by nothing but this size: at best probable",
            f.target.port
        ));
    }
}

/// Whether the claim's bytes reached the server: its kernel acknowledged them, or its memory shows that they were read.
fn delivery(s: &mut Scales, t: &Trigger, f: &Finding) {
    let missing = match f.acknowledged {
        None | Some(Acknowledged::All | Acknowledged::Part) => return,
        Some(Acknowledged::Unknown) => "the captures hold no acknowledgement of the claim's bytes",
        Some(Acknowledged::Nothing) => "nobody acknowledged the claim's bytes in the captures",
    };
    if t.fit == Fit::Fits && !f.one_direction {
        s.say(format!("{missing}: that they were read is shown by total-vm"));
    } else {
        s.hold(format!("{missing}: at best probable"));
    }
}

fn size(s: &mut Scales, event: &OomEvent, t: &Trigger, claim: u64) {
    let Some(vm) = event.total_vm_bytes else { return };
    if t.fit == Fit::Fits {
        s.fact(format!(
            "its total-vm of {} kB is the claim and {} besides",
            vm / 1024,
            bytes(vm.saturating_sub(claim))
        ));
    } else if t.at_limit {
        let held = event.anon_rss_bytes.map_or(String::new(), |rss| format!(" (anon-rss {})", readings(rss)));
        let text = format!("the process was much larger than the claim{held} and stood at the limit of its cgroup: ");
        let filled = claim as f64 / 0.5e9 + STRAW_SECONDS;
        if event.limit_bytes.is_none() {
            s.hold(text + "the claim was more than that left, if the limit was near (no line tells it)");
        } else if t.lag > filled {
            s.hold(text + "the claim was more than that left, but the kill came later than it takes to be filled");
        } else {
            s.say(text + "the claim was more than that left");
        }
    }
}

fn silence(e: &Evidence<'_>, s: &mut Scales, event: &OomEvent, f: &Finding) {
    let Some(l) = e.listener(f.target) else { return };
    if f.one_direction {
        s.say(
            "the capture holds nothing that the listener sent on this connection: silence is not to be told from it"
                .into(),
        );
        return;
    }
    let (silent, next) = l.silence_after(f.time);
    let to_the_kill = event.time.seconds_since(f.time);
    if silent + event.uncertainty_nanos as f64 / 1e9 + 1.0 >= to_the_kill && silent >= SILENT_SECONDS {
        let until = if next.is_some() { "until it was gone" } else { "to the end of the capture" };
        s.fact(format!("the listener {} sent nothing on any connection for {silent:.1} s after it, {until}", f.target));
    }
}

/// The death that ended the silence after a claim.
fn death_of(e: &Evidence<'_>, f: &Finding) -> Option<Death> {
    let l = e.listener(f.target)?;
    let death = l.death_after(f.time)?;
    (l.silence_after(f.time).1 == Some(death.time)).then_some(death)
}

/// What was lost with a listener, and who came too late.
fn lost(death: &Death) -> Option<String> {
    let plural = |n: u32, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    let closed =
        (death.closed > 0).then(|| plural(death.closed, "open connection was lost", "open connections were lost"));
    let refused =
        (death.refused > 0).then(|| plural(death.refused, "later attempt was refused", "later attempts were refused"));
    let both: Vec<String> = [closed, refused].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join(", "))
}

fn death(s: &mut Scales, died: Option<Timestamp>, event: &OomEvent) {
    let Some(died) = died else { return };
    let beside = event.uncertainty_nanos as f64 / 1e9 + CLOCKS_APART;
    let after = died.seconds_since(event.time);
    let closed = "its connections were closed from its side";
    let misses = death_misses(died, &kill_of(event), event.reaped_at, beside);
    if misses < 0.0 {
        s.against(format!(
            "{closed} {:.1} s before the kill ({}): what was killed then was another process, or a clock is off",
            -after,
            clock(died)
        ));
    } else if misses > 0.0 {
        let most = longest_to_die(event.anon_rss_bytes, event.kind == OomKind::Cgroup);
        s.hold(format!(
            "{closed} {after:.1} s after the kill ({}), and a process of its size is gone within {most:.0} s: that is no support",
            clock(died)
        ));
    } else if after.abs() <= event.uncertainty_nanos as f64 / 1e9 {
        s.fact(format!("{closed} at the time of the kill, as closely as that is known ({})", clock(died)));
    } else if after < 0.0 {
        s.fact(format!("{closed} with the kill ({})", clock(died)));
    } else {
        let after = if after < 0.95 { format!("{after:.2}") } else { format!("{after:.1}") };
        s.fact(format!("{closed} {after} s after the kill ({})", clock(died)));
    }
}

/// The clocks of a host's log and of its capture may be apart by this many seconds without being told.
const CLOCKS_APART: f64 = 0.25;

fn dialect(s: &mut Scales, t: &Trigger, f: &Finding, claim: u64) {
    match (f.dialect, f.effects.get(t.effect)) {
        (Some(d), _) => s.say(format!("the store speaks dialect {d} ({}): {}", d.releases(), known_by(f))),
        (None, Some(x)) if t.selected => s.say(format!(
            "the dialect is not known from the capture; of its readings total-vm selects {} ({} in {})",
            x.query.unwrap_or("this one"),
            bytes(claim),
            reading_dialects(f, x)
        )),
        (None, _) if f.effects.iter().all(|x| x.outcome == Outcome::Allocates) => {}
        (None, _) => s.hold("the store's dialect is not known, and not every candidate allocates".to_string()),
    }
}

fn clocks(e: &Evidence<'_>, s: &mut Scales, part: &HostPart, event: &OomEvent) {
    for c in e.clocks.of(&part.host) {
        // Packets that both captures hold bound the offset by themselves; the death is a second fit, where there is one.
        let beside = c.uncertainty + event.uncertainty_nanos as f64 / 1e9;
        let fits = part.died.is_some_and(|d| death_misses(d, &kill_of(event), event.reaped_at, beside) == 0.0);
        let by_packets = c.whose == Whose::Capture && c.uncertainty <= CLOCKS_APART && (part.died.is_none() || fits);
        match (c.agreed || by_packets || c.whose == Whose::Capture && fits, c.whose) {
            (true, Whose::Capture) if fits => {
                s.say(format!("{}; the listener's death agrees with the kernel's lines", c.text));
            }
            (true, _) => s.say(c.text.clone()),
            (false, _) => s.hold(format!("{}: nothing else agrees with that, so this is at best probable", c.text)),
        }
    }
}

/// What the kernel says of the limit that was reached.
pub(super) fn cgroup(event: &OomEvent) -> Option<String> {
    let name = event.limit_cgroup.as_deref().or(event.cgroup.as_deref()).filter(|_| event.kind == OomKind::Cgroup)?;
    let limit = event.limit_bytes.map_or(String::new(), |l| format!(", {}", readings(l)));
    Some(format!("it ran out at the limit of its memory cgroup ({name}{limit}); the host itself had memory"))
}

fn known_by(f: &Finding) -> String {
    f.evidence.first().cloned().unwrap_or_else(|| "the only candidate".to_string())
}

/// The dialects whose reading is that of `effect`.
fn reading_dialects(f: &Finding, effect: &Effect) -> String {
    let same = |x: &&Effect| (x.query, x.allocates_bytes) == (effect.query, effect.allocates_bytes);
    let mut names: Vec<&str> = f.effects.iter().filter(same).map(|x| x.dialect.name()).collect();
    names.dedup();
    names.join(", ")
}
