//! An ordinary guest (not a hostile one): defines types whose names the SDK, its bindings and the prelude
//! also use, to show that they do not collide. Returns the name of each file as a row.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::marker::PhantomData;
use std::path::PathBuf;

struct Component<T>(PhantomData<T>);

struct MiniBatch;
struct Guest;
struct String;
struct Option;
struct RefCell;

type ClashingTypes = (MiniBatch, Guest, String, Option, RefCell);

impl EntryScript for Component<ClashingTypes> {
    type Input = Files;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Component(PhantomData))
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| test_guests::name(file)))
    }
}

sandmill_guest::export!(Component<(MiniBatch, Guest, String, Option, RefCell)>);
