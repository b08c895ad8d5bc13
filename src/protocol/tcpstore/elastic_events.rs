//! Who of an elastic job was there and until when, as the states on one connection tell it: agents that join, their
//! heartbeats, agents that are taken out.
//!
//! Every state carries the last heartbeat of every agent, so one connection tells of all of them: of the others by what
//! its agent reads, of its own agent by what it writes.

use std::collections::BTreeMap;

use super::elastic::{Agent, ElasticState};
use super::said::Said;
use crate::time::Timestamp;

/// Agents kept a job and connection.
const MEMBERS: usize = 4096;
/// Heartbeats nearer to each other are one: a write that lost a race is tried again with a newer time.
const APART_NANOS: i64 = 1_000_000_000;
/// Turns of a job kept a connection.
const TURNS: usize = 64;

/// What the states on one connection tell of one agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attendance {
    /// Where it was first named.
    pub joined: Said,
    /// Its first heartbeat seen, by its own clock.
    pub first_beat: Timestamp,
    /// Its last heartbeat seen, by its own clock.
    pub last_beat: Timestamp,
    /// How many different heartbeats were seen.
    pub beats: u64,
    /// Where the last heartbeat was first seen.
    pub said: Said,
    /// Where a state first lacked it, after states that had it.
    pub gone: Option<Said>,
}

/// A turn in the life of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum JobEvent {
    /// All participants of this round are there.
    Complete(i64),
    /// The rendezvous is over.
    Closed,
}

/// An elastic job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElasticJob {
    /// The latest state seen.
    pub state: ElasticState,
    /// Where that was.
    pub said: Said,
    /// The agents that states named.
    pub agents: BTreeMap<Agent, Attendance>,
    /// The agent whose connection this is: the only one whose heartbeat a write moved.
    pub writer: Option<Agent>,
    /// Where the round was complete and where the rendezvous closed, in order.
    pub turns: Vec<(JobEvent, Said)>,
}

impl ElasticJob {
    /// A job of which this state is the first one seen.
    pub(super) fn new(state: &ElasticState, said: Said) -> Self {
        ElasticJob { state: state.clone(), said, agents: BTreeMap::new(), writer: None, turns: Vec::new() }
    }

    /// Takes note of a state that an agent wants to be written in the place of `expected`. Whether it was written its
    /// answer tells; that the agents it names are alive is true in any case.
    pub(super) fn wanted(&mut self, expected: Option<&ElasticState>, state: ElasticState, said: Said) {
        if self.writer.is_none() {
            let before: BTreeMap<&Agent, Timestamp> =
                expected.iter().flat_map(|e| &e.last_heartbeats).map(|(a, t)| (a, *t)).collect();
            let mut moved = state.last_heartbeats.iter().filter(|(a, t)| before.get(a) != Some(t));
            self.writer = match (moved.next(), moved.next()) {
                (Some((agent, _)), None) => Some(agent.clone()),
                _ => None,
            };
        }
        self.note(state, said);
    }

    /// Takes note of a state that the store holds.
    pub(super) fn held(&mut self, state: ElasticState, said: Said) {
        let listed = listed(&state);
        for (agent, attendance) in &mut self.agents {
            match listed.contains_key(agent) {
                true => attendance.gone = None,
                false => attendance.gone = attendance.gone.or(Some(said)),
            }
        }
        let done = |turn| self.turns.iter().any(|(t, _)| *t == turn);
        let complete = JobEvent::Complete(state.round);
        let new = [(state.complete, complete), (state.closed, JobEvent::Closed)];
        let new: Vec<JobEvent> =
            new.into_iter().filter(|(so, turn)| *so && !done(*turn)).map(|(_, turn)| turn).collect();
        let room = TURNS.saturating_sub(self.turns.len());
        self.turns.extend(new.into_iter().take(room).map(|turn| (turn, said)));
        self.note(state, said);
    }

    fn note(&mut self, state: ElasticState, said: Said) {
        for (agent, beat) in listed(&state) {
            let first = beat.unwrap_or(said.time);
            if let Some(a) = self.agents.get_mut(agent) {
                if let Some(beat) = beat.filter(|b| *b > a.last_beat) {
                    a.beats += u64::from(beat.0.saturating_sub(a.last_beat.0) >= APART_NANOS);
                    (a.last_beat, a.said) = (beat, said);
                }
            } else if self.agents.len() < MEMBERS {
                let beats = u64::from(beat.is_some());
                let new = Attendance { joined: said, first_beat: first, last_beat: first, beats, said, gone: None };
                self.agents.insert(agent.clone(), new);
            }
        }
        if said >= self.said {
            (self.state, self.said) = (state, said);
        }
    }
}

/// The agents of a state, each with its last heartbeat.
fn listed(state: &ElasticState) -> BTreeMap<&Agent, Option<Timestamp>> {
    let named = state.participants.iter().map(|(a, _)| a).chain(&state.wait_list);
    let mut all: BTreeMap<&Agent, Option<Timestamp>> = named.map(|a| (a, None)).collect();
    for (agent, beat) in &state.last_heartbeats {
        if let Some(slot) = all.get_mut(agent) {
            *slot = Some(slot.map_or(*beat, |b| b.max(*beat)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::PacketRef;
    use crate::time::NANOS;

    fn agent(pid: i64) -> Agent {
        Agent { address: "192.0.2.11".into(), pid, local_id: 0 }
    }

    fn state(beats: &[(i64, i64)]) -> ElasticState {
        ElasticState {
            round: 0,
            complete: beats.len() > 1,
            closed: false,
            deadline: None,
            participants: beats.iter().enumerate().map(|(rank, (pid, _))| (agent(*pid), rank as i64)).collect(),
            wait_list: Vec::new(),
            redundancy_list: Vec::new(),
            last_heartbeats: beats.iter().map(|(pid, t)| (agent(*pid), Timestamp(*t * NANOS))).collect(),
        }
    }

    fn at(n: i64) -> Said {
        Said { time: Timestamp(n), packet: PacketRef { capture: 0, number: n as u64 } }
    }

    #[test]
    fn heartbeats_count_once_and_an_agent_that_is_gone_is_said_to_be() {
        let mut job = ElasticJob::new(&state(&[(1, 10)]), at(1));
        job.held(state(&[(1, 10)]), at(1));
        job.wanted(Some(&state(&[(1, 10)])), state(&[(1, 10), (2, 12)]), at(2));
        assert_eq!(job.writer, Some(agent(2)), "the write moved its heartbeat alone");
        for n in 3..6 {
            job.held(state(&[(1, 10 + n), (2, 12)]), at(n));
        }
        let two = job.agents[&agent(2)];
        assert_eq!((two.beats, two.said, two.joined, two.gone), (1, at(2), at(2), None));
        assert_eq!((job.agents[&agent(1)].beats, job.agents[&agent(1)].last_beat), (4, Timestamp(15 * NANOS)));
        job.held(state(&[(1, 20)]), at(7));
        job.held(state(&[(1, 21)]), at(8));
        assert_eq!(job.agents[&agent(2)].gone, Some(at(7)));
        assert_eq!(job.turns, [(JobEvent::Complete(0), at(3))]);
        // A write that failed takes nobody out.
        job.wanted(None, state(&[(2, 30)]), at(9));
        assert_eq!(job.agents[&agent(1)].gone, None);
    }
}
