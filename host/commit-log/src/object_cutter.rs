//! Cuts bytes into objects of a store.

/// The length of an object, in bytes. Only the last object is shorter.
pub const OBJECT_BYTES: usize = 8 << 20;

/// Creates the object with this number, from 0, of these bytes.
pub type CreateObject<'a, E> = dyn FnMut(u32, &[u8]) -> Result<(), E> + 'a;

/// Cuts bytes into objects of [`OBJECT_BYTES`], in order.
#[derive(Debug, Default)]
pub struct ObjectCutter {
    /// The bytes that come into the next object.
    buffer: Vec<u8>,
    objects: u32,
}

impl ObjectCutter {
    /// Adds bytes. `create` gets each object that is full.
    ///
    /// # Errors
    /// Those of `create`.
    pub fn write<E>(
        &mut self,
        mut bytes: &[u8],
        create: &mut CreateObject<'_, E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let room = OBJECT_BYTES.saturating_sub(self.buffer.len());
            let (some, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(some);
            bytes = rest;
            if self.buffer.len() >= OBJECT_BYTES {
                self.create_object(create)?;
            }
        }
        Ok(())
    }

    fn create_object<E>(&mut self, create: &mut CreateObject<'_, E>) -> Result<(), E> {
        create(self.objects, &self.buffer)?;
        self.objects += 1;
        self.buffer.clear();
        Ok(())
    }

    /// Passes the last object to `create`, if bytes are left. Returns the number of all objects.
    ///
    /// # Errors
    /// Those of `create`.
    pub fn end<E>(mut self, create: &mut CreateObject<'_, E>) -> Result<u32, E> {
        if !self.buffer.is_empty() {
            self.create_object(create)?;
        }
        Ok(self.objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_object_is_shorter() {
        let mut lengths = Vec::new();
        let mut create = |number: u32, bytes: &[u8]| {
            assert_eq!(lengths.len() as u32, number);
            lengths.push(bytes.len());
            Ok::<_, ()>(())
        };
        let mut cutter = ObjectCutter::default();
        for _ in 0..3 {
            cutter.write(&vec![b'x'; OBJECT_BYTES - 1], &mut create).unwrap();
        }
        assert_eq!(cutter.end(&mut create), Ok(3));
        assert_eq!(lengths, [OBJECT_BYTES, OBJECT_BYTES, OBJECT_BYTES - 3]);
        assert_eq!(ObjectCutter::default().end(&mut |_, _| Err(())), Ok(0), "nothing was written");
    }
}
