//! Random crashes and damage, for fuzzing. The output of a job must not depend on them.

use super::crash_world::{CrashDamage, CrashWorld, Layout};
use super::*;
use crate::commit::recover::recover;
use crate::fail_point::crash_at;
use crate::model::OnConflict;
use std::fs;

/// About how many fail points an undisturbed run passes.
const FAIL_POINTS: u8 = 200;

/// Runs a job with crashes and damage. The first byte of `data` selects the kind of job. The second
/// byte selects whether the journal is damaged at the end. The other bytes select crashes, and
/// damage to part files and the output between the crashes. If the journal is intact, the job then
/// completes, and its output must be the same as after one uninterrupted run. If the journal is
/// damaged, the job may be refused or resumed, and the test only checks that the process does not
/// panic or hang.
pub fn recovery(data: &[u8]) {
    let [kind, end, steps @ ..] = data else { return };
    let on_conflict = OnConflict::ALL[usize::from((kind >> 1) % 3)];
    let layout = match kind {
        192.. => Layout::Parts,
        odd if odd & 1 == 1 => Layout::Ordered,
        _ => Layout::File,
    };
    let mut world = CrashWorld::new(layout, on_conflict);
    for step in steps.chunks(4).take(3) {
        let [crash, cut, harm, share] = [0, 1, 2, 3].map(|n| step.get(n).copied().unwrap_or(0));
        let cut = if cut & 1 == 1 { ":cut" } else { "" };
        let point = format!("*:{}{cut}", crash % FAIL_POINTS + 1);
        if crash_at(&point, || world.run()).is_some() {
            // The part files of a completed job are gone, so nothing is promised after that.
            return world.check();
        }
        world.damage_steps.extend(damage(harm, f64::from(share) / 256.0));
        world.damage();
    }
    if *end & 3 == 3 {
        return garble_journal(&world, *end >> 2, steps);
    }
    world.run();
    world.check();
}

fn damage(harm: u8, share: f64) -> Option<CrashDamage> {
    let number = usize::from(harm / 8);
    Some(match harm % 8 {
        0 => return None,
        1 => CrashDamage::CutPart(number, share),
        2 => CrashDamage::RemovePart(number),
        3 => CrashDamage::ChangePart(number, share),
        4 => CrashDamage::CutOutput(share),
        5 => CrashDamage::ChangeOutput(share),
        6 => CrashDamage::RemoveOutput,
        _ => CrashDamage::ExtendOutput,
    })
}

fn garble_journal(world: &CrashWorld, how: u8, bytes: &[u8]) {
    let path = world.target.worker_folders.job_dir().journal();
    let wal = path
        .with_file_name(format!("{}-wal", path.file_name().unwrap_or_default().to_string_lossy()));
    let victim = if how & 1 == 1 && wal.exists() { wal } else { path.clone() };
    let Ok(mut text) = fs::read(&victim) else { return };
    let changes = bytes.chunks_exact(3).skip(1);
    if how & 2 == 2 {
        let share = f64::from(bytes.first().copied().unwrap_or(0)) / 256.0;
        text.truncate((text.len() as f64 * share) as usize);
    }
    for change in changes {
        let offset = usize::from(change[0]) << 8 | usize::from(change[1]);
        let length = text.len().max(1);
        text.iter_mut().skip(offset % length).take(1).for_each(|byte| *byte = change[2]);
    }
    let written = fs::write(&victim, text);
    if let (Ok(()), Ok(journal)) = (written, Journal::open(&path)) {
        let _ = recover(world.target.clone(), journal, how & 4 == 4);
    }
}
