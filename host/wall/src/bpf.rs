//! A syscall filter as a BPF program: a search tree over the syscall numbers. When a filter is
//! installed, the kernel runs the program for each syscall number. Later, it runs the program for
//! each syscall whose action depends on the arguments. With a tree, each run takes few steps.

use libc::sock_filter;
use sandmill_model::count_u32;
use std::collections::BTreeMap;

/// What the kernel does with a syscall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyscallAction {
    Allow,
    /// The process is killed.
    Kill,
    /// The syscall fails with this error.
    Refuse(u16),
}

/// A condition on one argument of a syscall. Arguments are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentTest {
    /// The bits of `mask` have the same values as in `set`. All of them are among the lower 32
    /// bits.
    Bits { argument: u8, mask: u32, set: u32 },
    /// The lower 32 bits are not equal to `value`.
    Other { argument: u8, value: u32 },
    /// All 64 bits are 0.
    Null { argument: u8 },
}

/// What the kernel does with a syscall, depending on its arguments: the first test that holds decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyscallRule {
    tests: Vec<(ArgumentTest, SyscallAction)>,
    otherwise: SyscallAction,
}

impl SyscallRule {
    /// The same action for any arguments.
    pub(super) fn always(action: SyscallAction) -> Self {
        Self { tests: Vec::new(), otherwise: action }
    }

    /// The action of the first test that holds, or else `otherwise`.
    pub(super) fn by_tests(
        tests: Vec<(ArgumentTest, SyscallAction)>,
        otherwise: SyscallAction,
    ) -> Self {
        Self { tests, otherwise }
    }
}

// Offsets of the syscall number, the processor and the arguments in the kernel's `seccomp_data`.
const NUMBER_OFFSET: u32 = 0;
const PROCESSOR_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const MASK: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// The program for syscalls of one processor, in the kernel's numbering. A syscall for another processor
/// kills the process. A syscall without a rule gets `otherwise`.
pub(super) fn program(
    processor: u32,
    rules: &BTreeMap<u32, SyscallRule>,
    otherwise: SyscallAction,
) -> Vec<sock_filter> {
    let mut program = vec![
        instruction(LOAD, PROCESSOR_OFFSET),
        branch(IF_EQUAL, processor, 1, 0),
        return_action(SyscallAction::Kill),
        instruction(LOAD, NUMBER_OFFSET),
    ];
    program.extend(search_tree(&ranges(rules, &SyscallRule::always(otherwise))));
    program
}

/// Ranges of numbers that share a rule, each with its first number. They are in order and cover all numbers.
fn ranges<'a>(
    rules: &'a BTreeMap<u32, SyscallRule>,
    otherwise: &'a SyscallRule,
) -> Vec<(u32, &'a SyscallRule)> {
    let mut ranges: Vec<(u32, &SyscallRule)> = Vec::new();
    let mut put = |number: u32, rule: &'a SyscallRule| {
        if ranges.last().is_none_or(|(_, last)| *last != rule) {
            ranges.push((number, rule));
        }
    };
    let mut next = Some(0);
    for (&number, rule) in rules {
        if let Some(gap) = next.filter(|gap| *gap < number) {
            put(gap, otherwise);
        }
        put(number, rule);
        next = number.checked_add(1);
    }
    if let Some(rest) = next {
        put(rest, otherwise);
    }
    ranges
}

/// The program that finds the range of a number by bisection. All jumps go forward, as the kernel requires.
fn search_tree(ranges: &[(u32, &SyscallRule)]) -> Vec<sock_filter> {
    let (left, right) = ranges.split_at(ranges.len() / 2);
    let Some((first, rule)) = right.first() else { return Vec::new() };
    if left.is_empty() {
        return rule_program(rule);
    }
    let below = search_tree(left);
    let mut program = match u8::try_from(below.len()) {
        Ok(length) => vec![branch(IF_AT_LEAST, *first, length, 0)],
        // A conditional jump cannot reach that far.
        Err(_) => {
            vec![branch(IF_AT_LEAST, *first, 0, 1), instruction(JUMP, count_u32(below.len()))]
        }
    };
    program.extend(below);
    program.extend(search_tree(right));
    program
}

fn rule_program(rule: &SyscallRule) -> Vec<sock_filter> {
    let mut program = Vec::new();
    for (test, action) in &rule.tests {
        match *test {
            ArgumentTest::Bits { argument, mask, set } => {
                program.push(instruction(LOAD, low_half_offset(argument)));
                if mask != u32::MAX {
                    program.push(instruction(MASK, mask));
                }
                program.push(branch(IF_EQUAL, set & mask, 0, 1));
            }
            ArgumentTest::Other { argument, value } => {
                program.extend([
                    instruction(LOAD, low_half_offset(argument)),
                    branch(IF_EQUAL, value, 1, 0),
                ]);
            }
            ArgumentTest::Null { argument } => program.extend([
                instruction(LOAD, low_half_offset(argument)),
                branch(IF_EQUAL, 0, 0, 3),
                instruction(LOAD, high_half_offset(argument)),
                branch(IF_EQUAL, 0, 0, 1),
            ]),
        }
        program.push(return_action(*action));
    }
    program.push(return_action(rule.otherwise));
    program
}

/// The offset of the lower 32 bits of an argument.
fn low_half_offset(argument: u8) -> u32 {
    ARGUMENTS_OFFSET + 8 * u32::from(argument) + if cfg!(target_endian = "little") { 0 } else { 4 }
}

fn high_half_offset(argument: u8) -> u32 {
    ARGUMENTS_OFFSET + 8 * u32::from(argument) + if cfg!(target_endian = "little") { 4 } else { 0 }
}

fn return_action(action: SyscallAction) -> sock_filter {
    let value = match action {
        SyscallAction::Allow => libc::SECCOMP_RET_ALLOW,
        SyscallAction::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        SyscallAction::Refuse(error) => libc::SECCOMP_RET_ERRNO | u32::from(error),
    };
    instruction(RETURN, value)
}

fn instruction(code: u32, k: u32) -> sock_filter {
    branch(code, k, 0, 0)
}

/// Skips `yes` instructions if the condition holds, otherwise `no` instructions. `k` is the operand.
#[expect(clippy::cast_possible_truncation, reason = "the kernel's codes have 16 bits")]
fn branch(code: u32, k: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: yes, jf: no, k }
}

/// What the kernel would do with a syscall.
#[cfg(test)]
pub(super) fn run_filter(
    program: &[sock_filter],
    processor: u32,
    number: u32,
    args: [u64; 6],
) -> u32 {
    let mut next = 0;
    let mut value = 0;
    loop {
        let sock_filter { code, jt, jf, k } = program[next];
        next += 1;
        let skip = |holds: bool| usize::from(if holds { jt } else { jf });
        match u32::from(code) {
            RETURN => return k,
            LOAD => {
                value = match k {
                    NUMBER_OFFSET => number,
                    PROCESSOR_OFFSET => processor,
                    _ => {
                        let argument = (k - ARGUMENTS_OFFSET) / 8;
                        let half = (k - ARGUMENTS_OFFSET) % 8;
                        let argument = args[argument as usize].to_ne_bytes();
                        let half = &argument[half as usize..][..4];
                        u32::from_ne_bytes(half.try_into().unwrap())
                    }
                }
            }
            MASK => value &= k,
            JUMP => next += k as usize,
            IF_EQUAL => next += skip(value == k),
            IF_AT_LEAST => next += skip(value >= k),
            other => panic!("{other:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS};
    use proptest::prelude::*;

    proptest! {
        /// Tries sets of numbers at both ends of the range. Some sets are so large that jumps are
        /// long.
        #[test]
        fn every_syscall_number_reaches_its_rule(
            killed in prop::collection::btree_set(prop_oneof![0..2000_u32, u32::MAX - 9..=u32::MAX], 0..600),
            allowed in prop::collection::btree_set(0..2000_u32, 0..600),
        ) {
            let mut rules = BTreeMap::new();
            rules.extend(allowed.iter().map(|&number| (number, SyscallRule::always(SyscallAction::Allow))));
            rules.extend(killed.iter().map(|&number| (number, SyscallRule::always(SyscallAction::Kill))));
            let program = program(7, &rules, SyscallAction::Refuse(1));
            for number in (0..2010).chain(u32::MAX - 20..=u32::MAX) {
                let expected = if killed.contains(&number) {
                    SECCOMP_RET_KILL_PROCESS
                } else if allowed.contains(&number) {
                    SECCOMP_RET_ALLOW
                } else {
                    SECCOMP_RET_ERRNO | 1
                };
                prop_assert_eq!(run_filter(&program, 7, number, [0; 6]), expected, "{}", number);
                prop_assert_eq!(run_filter(&program, 8, number, [0; 6]), SECCOMP_RET_KILL_PROCESS);
            }
        }
    }

    #[test]
    fn the_first_test_that_holds_decides() {
        let bits = |mask, set| ArgumentTest::Bits { argument: 1, mask, set };
        let tests = vec![
            (bits(0xf0, 0x10), SyscallAction::Kill),
            (bits(u32::MAX, 5), SyscallAction::Refuse(9)),
            (ArgumentTest::Null { argument: 3 }, SyscallAction::Allow),
        ];
        let rules = BTreeMap::from([(4, SyscallRule::by_tests(tests, SyscallAction::Refuse(1)))]);
        let program = program(7, &rules, SyscallAction::Kill);
        let judge = |flags: u64, pointer: u64| {
            run_filter(&program, 7, 4, [u64::MAX, flags, u64::MAX, pointer, u64::MAX, u64::MAX])
        };
        assert_eq!(judge(0x1f, 0), SECCOMP_RET_KILL_PROCESS);
        // The kernel, too, uses only 32 bits of an int.
        assert_eq!(judge(0xff_0000_0010, 0), SECCOMP_RET_KILL_PROCESS);
        assert_eq!(judge(5, 0), SECCOMP_RET_ERRNO | 9);
        assert_eq!(judge(0x30, 0), SECCOMP_RET_ALLOW);
        for pointer in [1, 1 << 32, u64::MAX] {
            assert_eq!(judge(0x30, pointer), SECCOMP_RET_ERRNO | 1, "{pointer:#x}");
        }
        assert_eq!(run_filter(&program, 7, 3, [0; 6]), SECCOMP_RET_KILL_PROCESS);
    }
}
