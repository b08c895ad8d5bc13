//! Which system calls a process that runs for months may still make: seccomp, besides Landlock.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Numbers of system calls by their names; those after the semicolon are not on every architecture.
macro_rules! calls {
    ($($name:ident)*; $($old:ident)*) => {{
        #[cfg(target_arch = "x86_64")]
        const OLD: &[libc::c_long] = &[$(libc::$old),*];
        #[cfg(not(target_arch = "x86_64"))]
        const OLD: &[libc::c_long] = &[];
        [&[$(libc::$name),*], OLD]
    }};
}

/// New namespaces, as flags of `clone`.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// Files, memory, threads, time, waiting, and sockets that are open: what reading, SQLite, libpcap and alerts need.
fn own() -> [&'static [libc::c_long]; 2] {
    calls! {
        SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2
        SYS_lseek SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_openat SYS_openat2 SYS_fcntl SYS_flock SYS_fstat
        SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs SYS_faccessat SYS_faccessat2 SYS_readlinkat SYS_getdents64
        SYS_getcwd SYS_chdir SYS_fchdir SYS_renameat SYS_renameat2 SYS_unlinkat SYS_linkat SYS_mkdirat SYS_truncate
        SYS_ftruncate SYS_fallocate SYS_fchmod SYS_fchmodat SYS_fchmodat2 SYS_fchown SYS_fchownat SYS_umask SYS_utimensat
        SYS_fsync SYS_fdatasync SYS_sync_file_range SYS_syncfs SYS_fadvise64 SYS_readahead SYS_copy_file_range SYS_sendfile
        SYS_splice SYS_ioctl SYS_mmap SYS_munmap SYS_mprotect SYS_mremap SYS_madvise SYS_brk SYS_mlock SYS_munlock
        SYS_membarrier SYS_futex SYS_set_robust_list SYS_get_robust_list SYS_rseq SYS_set_tid_address SYS_exit
        SYS_exit_group SYS_gettid SYS_getpid SYS_getppid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getgroups
        SYS_getresuid SYS_getresgid SYS_sched_yield SYS_sched_getaffinity SYS_sched_getparam SYS_sched_getscheduler
        SYS_getcpu SYS_prctl SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigtimedwait
        SYS_sigaltstack SYS_restart_syscall SYS_tgkill SYS_nanosleep SYS_clock_nanosleep SYS_clock_gettime SYS_clock_getres
        SYS_gettimeofday SYS_getrandom SYS_sysinfo SYS_uname SYS_getrlimit SYS_prlimit64 SYS_getrusage SYS_times SYS_ppoll
        SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_pipe2 SYS_socketpair
        SYS_connect SYS_bind SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg SYS_setsockopt
        SYS_getsockopt SYS_getsockname SYS_getpeername SYS_shutdown;
        SYS_open SYS_stat SYS_lstat SYS_access SYS_readlink SYS_getdents SYS_rename SYS_unlink SYS_link SYS_mkdir SYS_rmdir
        SYS_chmod SYS_chown SYS_dup2 SYS_pipe SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_time
        SYS_arch_prctl SYS_utimes
    }
}

/// What programs need besides, that are started with an alert or ask the journal: systemd's `@system-service` without keys,
/// rings of requests (io_uring), other processes' memory, namespaces and page faults.
fn of_programs() -> [&'static [libc::c_long]; 2] {
    calls! {
        SYS_execve SYS_execveat SYS_socket SYS_listen SYS_accept SYS_accept4 SYS_kill SYS_tkill SYS_wait4 SYS_waitid
        SYS_pidfd_open SYS_pidfd_send_signal SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_rt_sigsuspend SYS_signalfd4
        SYS_setsid SYS_getsid SYS_setpgid SYS_getpgid SYS_setuid SYS_setgid SYS_setgroups SYS_setreuid SYS_setregid
        SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid SYS_capget SYS_capset SYS_getpriority SYS_setpriority
        SYS_ioprio_get SYS_ioprio_set SYS_setrlimit SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setparam
        SYS_sched_getattr SYS_sched_setattr SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_rr_get_interval
        SYS_get_mempolicy SYS_set_mempolicy SYS_mbind SYS_mlock2 SYS_mlockall SYS_munlockall SYS_msync SYS_mincore
        SYS_memfd_create SYS_mknodat SYS_symlinkat SYS_tee SYS_vmsplice SYS_sync SYS_getxattr SYS_lgetxattr SYS_fgetxattr
        SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr
        SYS_lremovexattr SYS_fremovexattr SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch SYS_getitimer
        SYS_setitimer SYS_timer_create SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime
        SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget
        SYS_semop SYS_semctl SYS_semtimedop SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_mq_open SYS_mq_unlink
        SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify SYS_mq_getsetattr SYS_futex_waitv;
        SYS_fork SYS_vfork SYS_pause SYS_alarm SYS_getpgrp SYS_lchown SYS_creat SYS_symlink SYS_mknod SYS_utime
        SYS_futimesat SYS_inotify_init SYS_signalfd SYS_set_thread_area SYS_get_thread_area
    }
}

/// One condition on an argument, of 32 bits or 64.
fn when(argument: u8, width: Width, compare: Compare, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, width, compare, value)?])
}

/// The filter: what is not on the list is answered as by a kernel that does not know the call (ENOSYS), which libraries are
/// prepared for. `runs`: programs are started, which inherit it. Without, no program can be started, nothing can be listened
/// on, and new sockets are local ones or those that hear an interface.
fn filter(runs: bool) -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        own().into_iter().flatten().map(|number| (*number, Vec::new())).collect();
    let must = if runs { 0 } else { libc::CLONE_THREAD as u64 };
    // The flags of clone3 lie in memory, where no filter sees them: it is left out, and libraries fall back on clone.
    rules.insert(libc::SYS_clone, vec![when(0, Width::Qword, Compare::MaskedEq(NAMESPACES | must), must)?]);
    if runs {
        rules.extend(of_programs().into_iter().flatten().map(|number| (*number, Vec::new())));
    } else {
        let families = [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_PACKET];
        let rule = |family| when(0, Width::Dword, Compare::Eq, family as u64);
        rules.insert(libc::SYS_socket, families.into_iter().map(rule).collect::<Result<_, _>>()?);
    }
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

/// Refuses this process, and all that it starts, whatever is not on the list, for good. `runs`: it starts programs.
///
/// # Errors
/// When the kernel has no seccomp filters, or this architecture has no list.
pub(crate) fn confine_calls(runs: bool) -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter_all_threads(&filter(runs)?)
}

/// Whether the kernel takes the filter and then refuses what it should, tried on a thread that ends with it.
///
/// # Errors
/// As [`confine_calls`].
pub(crate) fn is_refused_here() -> Result<bool, seccompiler::Error> {
    let program = filter(false)?;
    let tried = std::thread::spawn(move || {
        seccompiler::apply_filter(&program)?;
        Ok(std::net::UdpSocket::bind(("127.0.0.1", 0)).is_err_and(|e| e.raw_os_error() == Some(libc::ENOSYS)))
    });
    tried.join().unwrap_or(Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `f` says on a thread under the filter; `None` where the kernel has none.
    #[allow(clippy::print_stdout)]
    fn confined<T: Send + 'static>(runs: bool, f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let program = filter(runs).unwrap();
        let thread = std::thread::spawn(move || seccompiler::apply_filter(&program).ok().map(|()| f()));
        let done = thread.join().unwrap();
        if done.is_none() {
            println!("SKIPPED this kernel takes no seccomp filter");
        }
        done
    }

    #[test]
    fn without_programs_none_is_started_and_no_network_reached() {
        let Some(tried) = confined(false, || {
            let refused = |e: std::io::Error| e.raw_os_error() == Some(libc::ENOSYS);
            let program = std::process::Command::new("true").status().is_err_and(refused);
            let network = std::net::UdpSocket::bind(("127.0.0.1", 0)).is_err_and(refused);
            let local = std::os::unix::net::UnixDatagram::unbound().is_ok();
            let thread = std::thread::spawn(|| std::fs::read("/proc/self/stat").is_ok()).join().unwrap();
            (program, network, local, thread)
        }) else {
            return;
        };
        assert_eq!(tried, (true, true, true, true));
        assert!(is_refused_here().unwrap());
    }

    #[test]
    fn programs_run_but_make_no_namespaces() {
        let Some(tried) = confined(true, || {
            let run = |command: &str| std::process::Command::new("sh").args(["-c", command]).output().unwrap();
            let works = run("date | wc -l > /dev/null && ls -l / > /dev/null");
            let unshare = run("LC_ALL=C unshare --user true");
            let network = std::net::UdpSocket::bind(("127.0.0.1", 0)).is_ok();
            (works.status.success(), unshare, network)
        }) else {
            return;
        };
        let (works, unshare, network) = tried;
        assert!(works && network && !unshare.status.success());
        assert!(String::from_utf8_lossy(&unshare.stderr).contains("Function not implemented"), "{unshare:?}");
    }
}
