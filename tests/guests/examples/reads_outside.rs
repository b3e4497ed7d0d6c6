//! A hostile guest: tries to reach files and networks to which it has no access. Returns a row for each item,
//! with the results of all attempts joined by ` | `: `WHAT=denied: REASON` or `WHAT=GOT IT: DETAIL`.
//! `--path PATH` adds a path to read through the host and through WASI. `--list PATH` adds a folder to list,
//! and `--write PATH` a file to write. Each argument may be given more than once.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::fmt::{Debug, Display};
use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};

struct Guest {
    job: Job,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        Ok(Guest { job: job.clone() })
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        let first = files.first().ok_or("no files")?;
        let mut reports = Vec::new();
        self.reads(first, &mut reports);
        self.writes(first, &mut reports);
        sockets(&mut reports);
        let joined = reports.join(" | ").replace(['\n', '\r'], " ");
        Ok(Results::rows(files.iter().map(|f| format!("{}: {joined}", f.display()))))
    }
}

impl Guest {
    fn reads(&self, first: &Path, reports: &mut Vec<String>) {
        let up = "../".repeat(12);
        let folder = first.parent().unwrap_or(Path::new("/"));
        let mut paths: Vec<String> =
            ["/etc/passwd", "/proc/self/environ", "/proc/self/maps", "/dev/zero"]
                .into_iter()
                .map(str::to_owned)
                .collect();
        paths.push(format!("{}/{up}etc/passwd", folder.display()));
        paths.push(format!("{}/../../etc/passwd", self.job.output_dir().display()));
        paths.push("etc/passwd".to_owned());
        paths.push(String::new());
        paths.push("/inputs\0/etc/passwd".to_owned());
        paths.push(folder.display().to_string());
        paths.extend(self.values_of("--path"));
        for path in &paths {
            let shown = path.replace('\0', "\\0");
            reports.push(report(
                &format!("host {shown}"),
                sandmill_guest::read(path).map(|b| b.len()),
            ));
            reports.push(report(&format!("wasi {shown}"), fs::read(path).map(|b| b.len())));
        }
        reports.push(report("list /", fs::read_dir("/").map(|dir| dir.count())));
        reports.push(report("list /..", fs::read_dir("/..").map(|dir| dir.count())));
        for path in self.values_of("--list") {
            let names = fs::read_dir(&path).map(|dir| {
                let mut names: Vec<_> = dir.flatten().map(|entry| entry.file_name()).collect();
                names.sort();
                names
            });
            reports.push(report(&format!("list {path}"), names));
        }
    }

    fn writes(&self, first: &Path, reports: &mut Vec<String>) {
        let folder = first.parent().unwrap_or(Path::new("/"));
        let out = self.job.output_dir();
        reports.push(report("overwrite the input", fs::write(first, "forged")));
        reports.push(report("write beside the input", fs::write(folder.join("forged"), "forged")));
        reports.push(report("remove the input", fs::remove_file(first)));
        reports.push(report("rename the input", fs::rename(first, folder.join("renamed"))));
        reports.push(report("move the input out", fs::rename(first, out.join("moved"))));
        reports.push(report("write above the output", fs::write(out.join("../forged"), "forged")));
        if let Some(source) = self.job.source_dir() {
            reports
                .push(report("write into the source", fs::write(source.join("forged"), "forged")));
        }
        for path in self.values_of("--write") {
            reports.push(report(&format!("write {path}"), fs::write(&path, "forged")));
        }
        self.links(first, reports);
    }

    /// The values of an argument that may be given more than once.
    fn values_of(&self, name: &str) -> Vec<String> {
        let pairs = self.job.arguments().windows(2);
        pairs.filter(|pair| pair[0] == name).map(|pair| pair[1].clone()).collect()
    }

    /// Creates symbolic links that lead out of the output folder, and reads through them.
    fn links(&self, first: &Path, reports: &mut Vec<String>) {
        let out = self.job.output_dir();
        for (name, target) in [("absolute", "/etc/passwd"), ("up", "../../../../etc/passwd")] {
            let link = out.join(format!("{name}-link"));
            reports
                .push(report(&format!("make an {name} link"), test_guests::symlink(target, &link)));
            reports.push(report(
                &format!("host {name} link"),
                sandmill_guest::read(&link).map(|b| b.len()),
            ));
            reports.push(report(&format!("wasi {name} link"), fs::read(&link).map(|b| b.len())));
            let _ = fs::remove_file(&link);
        }
        reports.push(report("hard link of the input", fs::hard_link(first, out.join("hard"))));
    }
}

fn sockets(reports: &mut Vec<String>) {
    reports.push(report("connect", TcpStream::connect("127.0.0.1:80").map(drop)));
    reports.push(report("listen", TcpListener::bind("127.0.0.1:0").map(drop)));
    reports.push(report("udp", UdpSocket::bind("127.0.0.1:0").map(drop)));
    reports.push(report(
        "look up",
        std::net::ToSocketAddrs::to_socket_addrs("localhost:80").map(drop),
    ));
    reports.push(report("spawn", std::process::Command::new("/bin/sh").spawn().map(drop)));
}

fn report<T: Debug, E: Display>(what: &str, result: Result<T, E>) -> String {
    match result {
        Ok(detail) => format!("{what}=GOT IT: {detail:?}"),
        Err(reason) => format!("{what}=denied: {reason}"),
    }
}

sandmill_guest::export!(Guest);
