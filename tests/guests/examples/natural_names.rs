//! Ordinary: its types have names that the SDK, its bindings and the prelude also use. One row for each file:
//! its name.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::marker::PhantomData;
use std::path::PathBuf;

struct Component<T>(PhantomData<T>);

struct MiniBatch;
struct Guest;
struct String;
struct Option;
struct RefCell;

type All = (MiniBatch, Guest, String, Option, RefCell);

impl EntryScript for Component<All> {
    type Input = Files;

    fn init(_job: &Job) -> Result<Self> {
        Ok(Component(PhantomData))
    }

    fn run(&mut self, files: &[PathBuf], _context: &MiniBatchContext) -> Result<Results> {
        Ok(Results::each(files, |file| test_guests::name(file)))
    }
}

sandmill_guest::export!(Component<(MiniBatch, Guest, String, Option, RefCell)>);
