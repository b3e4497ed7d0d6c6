//! A hostile guest: calls WASI in ways that the standard library never would. The name of the mini-batch's
//! first file, `NNN-ACT.txt`, names the act. A mini-batch whose call succeeds returns that name as a row.

mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package hostile:calls@1.0.0;

            world caller {
                include sandmill:entry/run-only@0.2.0;
                include wasi:cli/imports@0.2.12;
            }
        "#,
        path: "../../wit",
        world: "hostile:calls/caller",
        generate_all,
    });
}

use bindings::exports::sandmill::entry::entry_run::Guest;
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};
use bindings::wasi::cli::{environment, stdin, stdout};
use bindings::wasi::clocks::monotonic_clock;
use bindings::wasi::filesystem::preopens;
use bindings::wasi::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};
use bindings::wasi::io::poll;
use bindings::wasi::random::{insecure, random};
use std::mem::forget;

struct Component;

impl Guest for Component {
    fn run(batch: MiniBatch, _context: MiniBatchContext) -> Result<Results, String> {
        let MiniBatch::Files(files) = batch else { return Err("no files".into()) };
        let name = files[0].rsplit('/').next().unwrap_or_default().to_owned();
        let act = name.trim_end_matches(".txt").split_once('-').map_or("", |(_, act)| act);
        if act != "good" {
            play(act)?;
        }
        Ok(Results::Rows(vec![name]))
    }
}

fn play(act: &str) -> Result<(), String> {
    match act {
        "random" => drop(random::get_random_bytes(u64::MAX)),
        "random-terabyte" => drop(random::get_random_bytes(1 << 40)),
        "insecure-random" => drop(insecure::get_insecure_random_bytes(1 << 40)),
        "poll-nothing" => drop(poll::poll(&[])),
        "poll-for-ever" => {
            let never = monotonic_clock::subscribe_duration(u64::MAX);
            drop(poll::poll(&[&never]));
        }
        "poll-again" => loop {
            let soon = monotonic_clock::subscribe_duration(1_000_000);
            soon.block();
        },
        "poll-one-thousands-of-times" => {
            let now = monotonic_clock::subscribe_duration(0);
            drop(poll::poll(&vec![&now; 200_000]));
        }
        "many-pollables" => loop {
            forget(monotonic_clock::subscribe_duration(u64::MAX));
        },
        "many-streams" => loop {
            forget(stdout::get_stdout());
        },
        "many-folders" => loop {
            forget(preopens::get_directories());
        },
        "zeroes" => loop {
            let stream = stdout::get_stdout();
            stream.blocking_write_zeroes_and_flush(4096).map_err(|e| format!("{e:?}"))?;
        },
        "zeroes-at-once" => {
            let stream = stdout::get_stdout();
            stream.blocking_write_zeroes_and_flush(u64::MAX).map_err(|e| format!("{e:?}"))?;
        }
        "write-beyond-permit" => {
            let stream = stdout::get_stdout();
            stream.write(&vec![b'x'; 32 << 20]).map_err(|e| format!("{e:?}"))?;
        }
        "read-stdin" => {
            let result = stdin::get_stdin().blocking_read(u64::MAX).map(drop);
            return Err(format!("stdin: {result:?}"));
        }
        "environment" => {
            let variables = environment::get_environment();
            let leaked: Vec<_> = variables.iter().filter(|(_, value)| value != "/output").collect();
            let folder = environment::initial_cwd();
            if !leaked.is_empty() || folder.is_some() {
                return Err(format!("GOT IT: {leaked:?} {folder:?}"));
            }
        }
        other => with_files(other)?,
    }
    Ok(())
}

fn with_files(act: &str) -> Result<(), String> {
    let folder = |name: &str| -> Result<Descriptor, String> {
        let preopened = preopens::get_directories();
        let found = preopened.into_iter().find(|(_, path)| path == name);
        found.map(|(folder, _)| folder).ok_or_else(|| format!("no {name}"))
    };
    let create = |name: &str| {
        let flags = DescriptorFlags::READ | DescriptorFlags::WRITE;
        folder("/output")?
            .open_at(PathFlags::empty(), name, OpenFlags::CREATE, flags)
            .map_err(|e| format!("{e:?}"))
    };
    match act {
        "read-everything" => {
            let (bytes, _) = create("read")?.read(u64::MAX, 0).map_err(|e| format!("{e:?}"))?;
            assert!(bytes.is_empty());
            drop(create("read")?.read_via_stream(u64::MAX).map(|s| s.blocking_read(u64::MAX)));
        }
        "write-far-out" => {
            let written = create("far")?.write(b"x", u64::MAX - 1);
            return Err(format!("far: {written:?}"));
        }
        "stream-far-out" => {
            let stream = create("far")?.write_via_stream(u64::MAX).map_err(|e| format!("{e:?}"))?;
            let written = stream.blocking_write_and_flush(b"x");
            return Err(format!("far: {written:?}"));
        }
        "open-upwards" => {
            let out = folder("/output")?;
            for path in ["..", "/", "/etc", "a/../../..", "./..", "\0", "", "~", "//etc/passwd"] {
                let flags = [OpenFlags::empty(), OpenFlags::DIRECTORY, OpenFlags::CREATE];
                for flag in flags {
                    let opened =
                        out.open_at(PathFlags::SYMLINK_FOLLOW, path, flag, DescriptorFlags::READ);
                    if opened.is_ok() && path != "~" {
                        return Err(format!("GOT IT: {path:?}"));
                    }
                }
            }
        }
        "too-long" => {
            let out = folder("/output")?;
            let long = "a/".repeat(1 << 20);
            let opened =
                out.open_at(PathFlags::empty(), &long, OpenFlags::empty(), DescriptorFlags::READ);
            let errors = [
                opened.err(),
                out.create_directory_at(&long).err(),
                out.stat_at(PathFlags::empty(), &long).err(),
                out.rename_at(&long, &out, "short").err(),
                out.readlink_at(&long).err(),
                out.unlink_file_at(&long).err(),
            ];
            return Err(errors.map(|code| code.map_or("done", |code| code.name())).join(" "));
        }
        "raise-rights" => {
            let input = folder("/inputs/texts").or_else(|_| folder("/inputs"))?;
            let flags = DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY;
            let raised = input.open_at(PathFlags::empty(), ".", OpenFlags::DIRECTORY, flags);
            if raised.is_ok_and(|raised| raised.create_directory_at("forged").is_ok()) {
                return Err("GOT IT: a writable folder of inputs".into());
            }
        }
        other => return Err(format!("{other}: there is no such act")),
    }
    Ok(())
}

bindings::export!(Component with_types_in bindings);
