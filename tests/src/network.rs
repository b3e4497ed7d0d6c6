//! Machines with networks of their own, which a test can cut off from each other.

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::thread;

/// Machines that are connected by a router. They share the file system and the processes of the real machine. The kernel
/// removes the networks when the test ends.
#[derive(Debug)]
pub struct Network {
    /// The network of the router.
    router: File,
    machines: Vec<File>,
}

impl Network {
    /// Makes this many machines. If this user cannot do so, prints that the test is skipped, and returns `None`.
    pub fn of(machines: u8) -> Option<Self> {
        let Some(router) = new_network().ok().filter(can_route) else {
            eprintln!("skipped: this user cannot make networks, or the program `ip` is missing");
            return None;
        };
        let mut network = Self { router, machines: Vec::new() };
        for number in 0..machines {
            let machine = new_network().unwrap();
            let path = format!("/proc/{}/fd/{}", std::process::id(), machine.as_raw_fd());
            inside(&network.router, || {
                ip(&format!("link add m{number} type veth peer name eth0 netns {path}"));
                ip(&format!("address add 10.77.{number}.1/24 dev m{number}"));
                ip(&format!("link set m{number} up"));
            });
            inside(&machine, || {
                ip(&format!("address add {}/24 dev eth0", address(number)));
                ip("link set eth0 up");
                ip("link set lo up");
                ip(&format!("route add default via 10.77.{number}.1"));
            });
            network.machines.push(machine);
        }
        Some(network)
    }

    /// The address of a machine.
    pub fn address(&self, machine: u8) -> String {
        address(machine)
    }

    /// Runs this on a machine: what it starts and connects to uses the machine's network.
    pub fn on<T: Send>(&self, machine: u8, act: impl FnOnce() -> T + Send) -> T {
        inside(&self.machines[usize::from(machine)], act)
    }

    /// From now on, nothing that one machine sends arrives at the other one. Neither of them notices it at once.
    pub fn cut(&self, from: u8, to: u8) {
        self.rule("add", from, to);
    }

    /// Ends what [`cut`](Self::cut) began.
    pub fn heal(&self, from: u8, to: u8) {
        self.rule("del", from, to);
    }

    fn rule(&self, what: &str, from: u8, to: u8) {
        let rule = format!("rule {what} from {} to {} blackhole", address(from), address(to));
        inside(&self.router, || ip(&rule));
    }
}

fn address(machine: u8) -> String {
    format!("10.77.{machine}.2")
}

/// A new network, which exists as long as the file is open, or a process uses it.
fn new_network() -> io::Result<File> {
    let make = || {
        // SAFETY: only the network of this thread changes. It has no open files of its own.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        File::open("/proc/thread-self/ns/net")
    };
    thread::scope(|scope| scope.spawn(make).join().unwrap())
}

/// Makes this the network of a router. Returns whether it can be one.
fn can_route(network: &File) -> bool {
    let has_link = || {
        let mut command = Command::new("ip");
        command.args(["link", "add", "try", "type", "veth", "peer", "name", "try2"]);
        command.output().is_ok_and(|output| output.status.success())
    };
    let forwards = || fs::write("/proc/sys/net/ipv4/ip_forward", "1").is_ok();
    inside(network, || forwards() && has_link())
}

/// Runs this on a thread that uses this network.
fn inside<T: Send>(network: &File, act: impl FnOnce() -> T + Send) -> T {
    let run = || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn one_direction_can_be_cut() {
        let Some(network) = Network::of(2) else { return };
        let socket = |machine| {
            let bind = || UdpSocket::bind((address(machine), 7777)).unwrap();
            let socket = network.on(machine, bind);
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            socket
        };
        let [first, second] = [socket(0), socket(1)];
        let arrives = |from: &UdpSocket, to: &UdpSocket| {
            from.send_to(b"x", to.local_addr().unwrap()).unwrap();
            to.recv(&mut [0]).is_ok()
        };
        assert!(arrives(&first, &second) && arrives(&second, &first));
        network.cut(0, 1);
        assert!(!arrives(&first, &second) && arrives(&second, &first));
        network.heal(0, 1);
        assert!(arrives(&first, &second));
    }
}
