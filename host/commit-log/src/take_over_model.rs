//! Leaders that begin, append and publish, as a small model: all of its states are visited. The simulation tests the
//! code of the log; this tests the rules that the code follows, in every order of steps, and shows that none of
//! them can be left out.
//!
//! A leader that takes no step is paused, for as long as the others like. Nodes may report each mini-batch at any time,
//! to any leader, and any number of times.

use std::collections::{BTreeMap, HashSet, VecDeque};

/// The job has so many mini-batches.
const MINI_BATCHES: u8 = 2;

/// How much happens in the model.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// So many times a leader begins, in one of the two processes.
    begins: u8,
    /// So many requests go wrong.
    faults: u8,
}

/// The sizes of a full search. Both at once would take minutes.
const SIZES: [Size; 2] = [Size { begins: 3, faults: 1 }, Size { begins: 2, faults: 2 }];

/// What a leader does to be safe.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// It creates records only if they are absent.
    creates_if_absent: bool,
    /// After an error of an append, it reads what is there. Otherwise it believes the answer.
    reads_after_errors: bool,
    /// It reads the record after its last one before it publishes.
    looks_before_publishing: bool,
    /// No other leader takes a step between this look and the rename. A lock on the output folder has this effect, as
    /// long as the folder does not lose it.
    publishes_at_once: bool,
    /// Not a rule.
    size: Size,
}

const ALL_RULES: Rules = Rules {
    creates_if_absent: true,
    reads_after_errors: true,
    looks_before_publishing: true,
    publishes_at_once: true,
    size: SIZES[0],
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Content {
    TakeOver,
    Rows(u8),
    End,
}

/// A record of the log. Each leader appends each content once, so this is the record's nonce, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Record {
    leader: u8,
    content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// It waits for reports.
    Leads,
    /// It is about to create this record.
    Creates(Record),
    /// The store has not confirmed this record. The leader is about to read what is there.
    Doubts(Record),
    /// All mini-batches have ended, and the log says so.
    Ended,
    /// No other leader had begun when it looked.
    Publishes,
}

/// What a leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Leader {
    /// The number of its beginning.
    id: u8,
    phase: Phase,
    /// The number of its next record.
    next: usize,
    /// The committed mini-batches, as bits.
    rows: u8,
    has_end: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Model {
    log: Vec<Record>,
    /// Requests to create records that the store may still carry out.
    late: Vec<(usize, Record)>,
    /// What runs in the two processes.
    processes: [Option<Leader>; 2],
    begins: u8,
    faults: u8,
    is_published: bool,
    /// Which promise was broken.
    broken: Option<&'static str>,
}

const ALL_ROWS: u8 = (1 << MINI_BATCHES) - 1;

impl Model {
    /// All steps that are possible now, with their results.
    fn steps(&self, rules: Rules) -> Vec<(String, Model)> {
        let mut steps = Vec::new();
        for place in 0..self.late.len() {
            let mut after = self.clone();
            let (number, record) = after.late.swap_remove(place);
            after.create(number, record, rules);
            steps.push((format!("the store creates {record:?} late"), after));
        }
        for process in 0..self.processes.len() {
            match self.processes[process] {
                None => self.begin(process, rules, &mut steps),
                Some(leader) => {
                    let mut killed = self.clone();
                    killed.processes[process] = None;
                    steps.push((format!("leader {} is killed", leader.id), killed));
                    self.steps_of(leader, process, rules, &mut steps);
                }
            }
        }
        // The two processes are alike.
        steps.iter_mut().for_each(|(_, after)| after.processes.sort_unstable());
        steps
    }

    /// A leader reads the log, and wants to append its first record. The log only grows, so it does not matter when
    /// each record is read.
    fn begin(&self, process: usize, rules: Rules, steps: &mut Vec<(String, Model)>) {
        let has_end = self.log.iter().any(|record| record.content == Content::End);
        if self.begins == rules.size.begins || (has_end && self.is_published) {
            return;
        }
        let id = self.begins;
        let first = Record { leader: id, content: Content::TakeOver };
        let next = self.log.len();
        let rows = rows_of(&self.log);
        let leader = Leader { id, phase: Phase::Creates(first), next, rows, has_end };
        let after = Model { begins: id + 1, ..self.with(process, leader) };
        steps.push((format!("leader {id} reads {next} records"), after));
    }

    fn steps_of(
        &self,
        leader: Leader,
        process: usize,
        rules: Rules,
        steps: &mut Vec<(String, Model)>,
    ) {
        let id = leader.id;
        let mut step =
            |what: String, after: Model| steps.push((format!("leader {id} {what}"), after));
        let go_on = |model: &Model, phase| model.with(process, Leader { phase, ..leader });
        let fenced = |model: &Model| {
            let mut after = model.clone();
            after.processes[process] = None;
            after
        };
        match leader.phase {
            Phase::Leads => {
                let open = (0..MINI_BATCHES).filter(|row| leader.rows & (1 << row) == 0);
                for row in open {
                    let record = Record { leader: id, content: Content::Rows(row) };
                    step(format!("gets a report of {row}"), go_on(self, Phase::Creates(record)));
                }
                if leader.rows == ALL_ROWS {
                    let record = Record { leader: id, content: Content::End };
                    step("wants to end the job".into(), go_on(self, Phase::Creates(record)));
                }
            }
            Phase::Creates(record) => {
                let mut created = self.clone();
                let is_new = created.create(leader.next, record, rules);
                let answered = match is_new {
                    true => created.with(process, leader.after(record)),
                    false if rules.reads_after_errors => go_on(self, Phase::Doubts(record)),
                    false => fenced(self),
                };
                step(format!("creates {record:?}: {is_new}"), answered);
                if self.faults < rules.size.faults {
                    let faults = self.faults + 1;
                    // Without the rule, the leader tries again with the next number.
                    let doubts = |model: &Model| match rules.reads_after_errors {
                        true => go_on(model, Phase::Doubts(record)),
                        false => model.with(process, Leader { next: leader.next + 1, ..leader }),
                    };
                    let lost = Model { faults, ..doubts(&created) };
                    step(format!("creates {record:?}, and the reply is lost"), lost);
                    let mut late = Model { faults, ..go_on(self, Phase::Doubts(record)) };
                    late.late.push((leader.next, record));
                    step(format!("cannot create {record:?}"), late);
                }
            }
            Phase::Doubts(record) => {
                let after = match self.log.get(leader.next) {
                    Some(found) if *found == record => self.with(process, leader.after(record)),
                    Some(_) => fenced(self),
                    None => go_on(self, Phase::Creates(record)),
                };
                step("reads what is there".into(), after);
            }
            Phase::Ended => {
                let is_fenced = rules.looks_before_publishing && self.log.len() > leader.next;
                let after = match (is_fenced, rules.publishes_at_once) {
                    (true, _) => fenced(self),
                    (false, true) => self.published(leader, process),
                    (false, false) => go_on(self, Phase::Publishes),
                };
                step("looks for another leader".into(), after);
            }
            Phase::Publishes => step("publishes".into(), self.published(leader, process)),
        }
    }

    fn with(&self, process: usize, leader: Leader) -> Model {
        let mut after = self.clone();
        after.processes[process] = Some(leader);
        after
    }

    /// The store is asked to create a record. Returns whether it did.
    fn create(&mut self, number: usize, record: Record, rules: Rules) -> bool {
        // No leader skips a number.
        let is_next = number == self.log.len();
        match self.log.get_mut(number) {
            Some(existing) if !rules.creates_if_absent => *existing = record,
            None if is_next => self.log.push(record),
            _ => return false,
        }
        true
    }

    /// The leader renames its output to the final name.
    fn published(&self, leader: Leader, process: usize) -> Model {
        let mut after = self.clone();
        after.processes[process] = None;
        after.is_published = true;
        let later = self.log.iter().any(|record| record.leader > leader.id);
        if leader.rows != ALL_ROWS {
            after.broken = Some("rows are missing");
        } else if later {
            after.broken = Some("a leader publishes after another one has begun");
        }
        after
    }

    /// The promise that is broken in this state.
    fn broken_promise(&self) -> Option<&'static str> {
        let count = |row| self.log.iter().filter(|r| r.content == Content::Rows(row)).count();
        if (0..MINI_BATCHES).any(|row| count(row) > 1) {
            return Some("a mini-batch is committed twice");
        }
        let has_lost = |leader: &Leader| {
            let known = self.log.get(..leader.next);
            known.is_none_or(|known| leader.rows & !rows_of(known) != 0)
        };
        if self.processes.iter().flatten().any(has_lost) {
            return Some("a committed record has vanished");
        }
        if self.is_published && rows_of(&self.log) != ALL_ROWS {
            return Some("what is published is not in the log");
        }
        self.broken
    }
}

impl Leader {
    /// The leader after this record of it is in the log.
    fn after(self, record: Record) -> Leader {
        let mut rows = self.rows;
        let mut has_end = self.has_end;
        match record.content {
            Content::Rows(row) => rows |= 1 << row,
            Content::End => has_end = true,
            Content::TakeOver => {}
        }
        let phase = if has_end { Phase::Ended } else { Phase::Leads };
        Leader { phase, next: self.next + 1, rows, has_end, ..self }
    }
}

/// The mini-batches that these records commit, as bits.
fn rows_of(log: &[Record]) -> u8 {
    log.iter().fold(0, |rows, record| match record.content {
        Content::Rows(row) => rows | 1 << row,
        _ => rows,
    })
}

/// What a search has found.
#[derive(Debug)]
struct Found {
    states: usize,
    /// Whether each of the wanted states was reached.
    reached: Vec<bool>,
    /// The first broken promises, each with a shortest way to it.
    broken: BTreeMap<&'static str, Vec<String>>,
}

/// Visits all states, those first that take the fewest steps. Goes no further from a state in which a promise is broken.
fn search(rules: Rules, wanted: &[fn(&Model) -> bool]) -> Found {
    let mut reached = vec![false; wanted.len()];
    let mut broken = BTreeMap::new();
    // The states in the order of their discovery: the place of the state before, and the step from there.
    let mut ways: Vec<(usize, String)> = vec![(0, String::new())];
    let mut open = VecDeque::from([(0, Model::default())]);
    let mut seen = HashSet::from([Model::default()]);
    while let Some((place, model)) = open.pop_front() {
        for (is_reached, is_wanted) in reached.iter_mut().zip(wanted) {
            *is_reached |= is_wanted(&model);
        }
        if let Some(promise) = model.broken_promise() {
            broken.entry(promise).or_insert_with(|| way_to(&ways, place));
            continue;
        }
        for (what, after) in model.steps(rules) {
            if seen.insert(after.clone()) {
                open.push_back((ways.len(), after));
                ways.push((place, what));
            }
        }
    }
    Found { states: ways.len(), reached, broken }
}

fn way_to(ways: &[(usize, String)], end: usize) -> Vec<String> {
    let before = |place: &usize| (*place > 0).then(|| ways[*place].0);
    let places = std::iter::successors(Some(end), before).filter(|place| *place > 0);
    let mut way: Vec<String> = places.map(|place| ways[place].1.clone()).collect();
    way.reverse();
    way
}

#[test]
fn in_every_order_of_steps_each_row_is_published_once() {
    let wanted: [fn(&Model) -> bool; 3] = [
        |model| model.is_published,
        // An old leader is in the middle of an append.
        |model| model.processes.iter().flatten().any(|leader| leader.next < model.log.len()),
        // A leader continues after the end, because nothing was published.
        |model| {
            let end = model.log.iter().position(|record| record.content == Content::End);
            end.is_some_and(|end| model.log.len() > end + 1)
        },
    ];
    for size in SIZES {
        let found = search(Rules { size, ..ALL_RULES }, &wanted);
        assert!(found.broken.is_empty(), "{found:#?}");
        assert!(found.reached.iter().all(|is_reached| *is_reached), "{found:?}");
        assert!(found.states > 10_000, "{found:?}");
    }
}

/// Each rule is needed, and the model notices if it is missing.
#[test]
fn without_one_of_the_rules_a_promise_is_broken() {
    let size = Size { begins: 2, faults: 1 };
    let assert_breaks = |rules: Rules, promise: &str| {
        let found = search(Rules { size, ..rules }, &[]);
        assert!(found.broken.contains_key(promise), "{promise}: {found:#?}");
    };
    let overwrites = Rules { creates_if_absent: false, ..ALL_RULES };
    assert_breaks(overwrites, "a committed record has vanished");
    let believes = Rules { reads_after_errors: false, ..ALL_RULES };
    assert_breaks(believes, "a mini-batch is committed twice");
    let never_looks = Rules { looks_before_publishing: false, ..ALL_RULES };
    assert_breaks(never_looks, "a leader publishes after another one has begun");
}

/// Without a lock, a leader may be paused between its look and the rename. It then publishes late. But it has appended
/// the end, or has read it, so it publishes the same rows as the other leader.
#[test]
fn a_leader_that_publishes_late_publishes_the_same_rows() {
    let found = search(Rules { publishes_at_once: false, ..ALL_RULES }, &[]);
    let promises: Vec<_> = found.broken.keys().collect();
    assert_eq!(promises, [&"a leader publishes after another one has begun"], "{found:#?}");
}
