//! The seccomp filters of a room: the system calls that its programs may not make.
//!
//! A deny list, because a room runs whatever a developer runs. It closes the ways out that
//! namespaces do not guard. Installed before room-init starts, so every process inherits it.

use crate::sys::Instruction;
use hothouse_host::ids::Mode;
use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// System calls that are always refused.
const DENIED: &[c_long] = &[
    // Interfaces with a history of vulnerabilities, or without namespaces.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    // Calls that affect the machine itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
];

const SETUID: u64 = 0o4000;
const SETGID: u64 = 0o2000;
const CREATE: u64 = 0o100;
const TEMPORARY: u64 = 0o20_000_000;

/// Calls with a mode, and the index of that argument.
const MODES: &[(c_long, u8)] = &[
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_creat, 1),
    (libc::SYS_mkdir, 1),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls with flags and a mode that only matters on creation, and the indexes of both.
const CREATING: &[(c_long, u8, u8)] = &[(libc::SYS_open, 1, 2), (libc::SYS_openat, 2, 3)];

/// Calls that set an attribute; its length is the fourth argument.
const ATTRIBUTES: [c_long; 3] = [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr];

/// `setxattrat`, since Linux 6.13.
const SETXATTRAT: c_long = 463;

/// `XATTR_CAPS_SZ_2` and `XATTR_CAPS_SZ_3`; the kernel accepts no others (capabilities(7)).
const CAPABILITY_LENGTHS: [u64; 2] = [20, 24];

/// Address families that are confined to a network namespace: unix, IPv4, IPv6, netlink.
const FAMILIES: [c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Ioctls that inject input into a terminal or take it over.
const TERMINAL_REQUESTS: [u64; 2] = [libc::TIOCSTI, 0x541C];

/// `F_SETLEASE` and `F_SETDELEG`. With a lease on a host file, a room could block the file's other
/// users.
const LEASES: [u64; 2] = [1024, 1040];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Compiles the filters of a room in `mode`.
pub(super) fn compile(mode: Mode) -> Result<Vec<Vec<Instruction>>, BackendError> {
    Ok(vec![
        no_second_abi(),
        program(forbidden(mode)?, libc::EPERM)?,
        program(foreign_families()?, libc::EAFNOSUPPORT)?,
        program(file_capabilities()?, libc::EOPNOTSUPP)?,
        program(unknown(), libc::ENOSYS)?,
    ])
}

/// Returns the calls that programs can replace, because some kernels do not support them.
fn unknown() -> Rules {
    // The mode of the first and the length of the second are in memory, which a filter cannot read.
    // Programs fall back to `openat` and `setxattr`.
    let unseen = [libc::SYS_openat2, SETXATTRAT];
    // The host has one limit for all users together (`fs.aio-max-nr`) and none per user. Databases
    // fall back to threads.
    let unbounded = [libc::SYS_io_setup];
    unseen.into_iter().chain(unbounded).map(|call| (call, vec![])).collect()
}

fn forbidden(mode: Mode) -> Result<Rules, BackendError> {
    let mut rules: Rules = DENIED.iter().map(|call| (*call, vec![])).collect();
    for (call, at) in MODES {
        rules.insert(*call, vec![rule(&[bits(*at, SETUID)])?, rule(&[bits(*at, SETGID)])?]);
    }
    for (call, flags, at) in CREATING {
        let mut list = Vec::new();
        for create in [CREATE, TEMPORARY] {
            for bit in [SETUID, SETGID] {
                list.push(rule(&[bits(*flags, create), bits(*at, bit)])?);
            }
        }
        rules.insert(*call, list);
    }
    let requests = TERMINAL_REQUESTS.iter().map(|request| rule(&[(1, SeccompCmpOp::Eq, *request)]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    let leases = LEASES.iter().map(|command| rule(&[(1, SeccompCmpOp::Eq, *command)]));
    rules.insert(libc::SYS_fcntl, leases.collect::<Result<_, _>>()?);
    if mode == Mode::Single {
        // room-init has the room's only uid, so the kernel would let the room change its limits.
        rules.insert(libc::SYS_prlimit64, vec![rule(&[(0, SeccompCmpOp::Ne, 0)])?]);
    }
    Ok(rules)
}

/// Refuses attributes of the two lengths that file capabilities have. Namespaces do not help: on a
/// mount that shows the host's root as the agent, an attribute set by the root of a nested
/// namespace belongs to the host's root. Attributes of other lengths, including ACLs, can be set.
fn file_capabilities() -> Result<Rules, BackendError> {
    let lengths = CAPABILITY_LENGTHS.map(|length| rule(&[(3, SeccompCmpOp::Eq, length)]));
    let [second, third] = lengths;
    let rules = vec![second?, third?];
    Ok(ATTRIBUTES.iter().map(|call| (*call, rules.clone())).collect())
}

fn foreign_families() -> Result<Rules, BackendError> {
    let foreign = FAMILIES.map(|family| (0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())));
    Ok(BTreeMap::from([(libc::SYS_socket, vec![rule(&foreign)?])]))
}

type Test = (u8, SeccompCmpOp, u64);

fn bits(at: u8, mask: u64) -> Test {
    (at, SeccompCmpOp::MaskedEq(mask), mask)
}

fn rule(tests: &[Test]) -> Result<SeccompRule, BackendError> {
    let conditions = tests.iter().map(|(at, operator, value)| {
        SeccompCondition::new(*at, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn program(rules: Rules, errno: c_int) -> Result<Vec<Instruction>, BackendError> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let arch = TargetArch::x86_64;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    let program: BpfProgram = filter.try_into()?;
    let convert = |i: seccompiler::sock_filter| Instruction {
        code: i.code,
        if_true: i.jt,
        if_false: i.jf,
        value: i.k,
    };
    Ok(program.into_iter().map(convert).collect())
}

/// Refuses x32, whose call numbers would bypass the other filters. (Those already kill i386
/// programs.)
fn no_second_abi() -> Vec<Instruction> {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, if_true, if_false, value| Instruction { code, if_true, if_false, value };
    vec![
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_AT_LEAST, 0, 1, X32),
        step(RETURN, 0, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
        step(RETURN, 0, 0, ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates a filter as the kernel would: takes the number, architecture and arguments;
    /// returns the verdict.
    fn verdict(program: &[Instruction], number: c_long, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(u32::try_from(number).unwrap().to_le_bytes());
        data.extend(0xC000_003E_u32.to_le_bytes());
        data.extend([0; 8]);
        data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
        let (mut at, mut register) = (0, 0_u32);
        loop {
            let Instruction { code, if_true, if_false, value } = program[at];
            at += 1;
            let jump = |taken: bool| usize::from(if taken { if_true } else { if_false });
            match code {
                0x20 => {
                    register = u32::from_le_bytes(data[value as usize..][..4].try_into().unwrap())
                }
                0x54 => register &= value,
                0x05 => at += value as usize,
                0x15 => at += jump(register == value),
                0x25 => at += jump(register > value),
                0x35 => at += jump(register >= value),
                0x06 => return value,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    fn outcome(mode: Mode, number: c_long, arguments: [u64; 6]) -> Option<i32> {
        let verdicts =
            compile(mode).unwrap().iter().map(|program| verdict(program, number, arguments)).min();
        match verdicts.unwrap() {
            0x7fff_0000 => None,
            errno => Some(i32::try_from(errno & 0xffff).unwrap()),
        }
    }

    #[test]
    fn denied_calls_are_denied() {
        for call in DENIED {
            assert_eq!(outcome(Mode::Root, *call, [0; 6]), Some(libc::EPERM), "{call}");
        }
        assert_eq!(outcome(Mode::Root, libc::SYS_openat2, [0; 6]), Some(libc::ENOSYS));
        assert_eq!(outcome(Mode::Root, libc::SYS_io_setup, [1; 6]), Some(libc::ENOSYS));
        assert_eq!(outcome(Mode::Root, libc::SYS_read, [0; 6]), None);
        assert_eq!(outcome(Mode::Root, libc::SYS_mount, [0; 6]), None);
    }

    #[test]
    fn setuid_and_setgid_modes_are_refused_and_plain_ones_are_not() {
        for (call, at) in MODES {
            for (mode, refused) in
                [(0o755, false), (0o1777, false), (0o4755, true), (0o2755, true), (0o6711, true)]
            {
                let mut arguments = [0; 6];
                arguments[usize::from(*at)] = mode;
                assert_eq!(
                    outcome(Mode::Range, *call, arguments).is_some(),
                    refused,
                    "{call} {mode:o}"
                );
            }
        }
    }

    #[test]
    fn open_is_refused_a_setuid_mode_only_when_it_creates() {
        let open = |flags, mode| outcome(Mode::Root, libc::SYS_openat, [0, 0, flags, mode, 0, 0]);
        assert_eq!(open(CREATE, 0o644), None);
        assert_eq!(open(CREATE, 0o4755), Some(libc::EPERM));
        assert_eq!(open(TEMPORARY, 0o2755), Some(libc::EPERM));
        assert_eq!(open(0, 0o4755), None);
    }

    #[test]
    fn file_capabilities_are_refused_and_other_attributes_are_not() {
        for call in ATTRIBUTES {
            for (length, refused) in [(19, false), (20, true), (24, true), (28, false), (0, false)]
            {
                let got = outcome(Mode::Root, call, [0, 0, 0, length, 0, 0]);
                assert_eq!(got, refused.then_some(libc::EOPNOTSUPP), "{call} {length}");
            }
        }
        assert_eq!(outcome(Mode::Root, SETXATTRAT, [0; 6]), Some(libc::ENOSYS));
    }

    #[test]
    fn only_families_of_the_namespace_are_there() {
        for family in 0..=45 {
            let known = FAMILIES.contains(&family);
            let got = outcome(
                Mode::Root,
                libc::SYS_socket,
                [family.unsigned_abs().into(), 1, 0, 0, 0, 0],
            );
            assert_eq!(got.is_none(), known, "family {family}");
        }
    }

    #[test]
    fn nobody_types_into_the_terminal_of_another() {
        assert_eq!(
            outcome(Mode::Root, libc::SYS_ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0]),
            Some(libc::EPERM)
        );
        // The kernel reads only 32 bits of the request.
        let disguised = libc::TIOCSTI | 1 << 32;
        assert_eq!(
            outcome(Mode::Root, libc::SYS_ioctl, [0, disguised, 0, 0, 0, 0]),
            Some(libc::EPERM)
        );
        assert_eq!(outcome(Mode::Root, libc::SYS_ioctl, [0, libc::TIOCGWINSZ, 0, 0, 0, 0]), None);
    }

    #[test]
    fn nobody_leases_a_file() {
        for command in LEASES {
            let asked = [3, command, 0, 0, 0, 0];
            assert_eq!(outcome(Mode::Root, libc::SYS_fcntl, asked), Some(libc::EPERM));
        }
        let lock = u64::from(libc::F_SETLK.unsigned_abs());
        assert_eq!(outcome(Mode::Root, libc::SYS_fcntl, [3, lock, 0, 0, 0, 0]), None);
    }

    #[test]
    fn x32_numbers_do_not_slip_past() {
        assert_eq!(outcome(Mode::Root, 0x4000_0000 + libc::SYS_keyctl, [0; 6]), Some(libc::ENOSYS));
    }

    #[test]
    fn limits_of_others_are_out_of_reach_with_a_single_uid() {
        assert_eq!(
            outcome(Mode::Single, libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0]),
            Some(libc::EPERM)
        );
        assert_eq!(outcome(Mode::Single, libc::SYS_prlimit64, [0; 6]), None);
        assert_eq!(outcome(Mode::Root, libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0]), None);
    }
}
