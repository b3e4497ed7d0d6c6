;; Hostile: misbehaves in the allocator, which the host calls to pass values to the guest. A path of 200 bytes
;; or more chooses an act, whose number is the path's length minus 200. With shorter paths, everything works.
(module
  (import "sandmill:entry/host@0.2.0" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 2)
  (global $free (mut i32) (i32.const 65536))
  (data (i32.const 0) "a call back")
  GOOD
  (func $deep (param $n i32) (result i32)
    (i32.add (i32.const 1) (call $deep (i32.add (local.get $n) (i32.const 1)))))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (if (i32.ge_u (local.get 3) (i32.const 200))
      (then
        (block $a0 (block $a1 (block $a2 (block $a3 (block $a4 (block $a5
          (br_table $a0 $a1 $a2 $a3 $a4 $a5 (i32.sub (local.get 3) (i32.const 200)))
        )
        ;; 5: loops without end
          (loop $forever (br $forever)))
        ;; 4: a recursion without end
          (return (call $deep (i32.const 0))))
        ;; 3: grows the memory without end
          (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
          unreachable)
        ;; 2: calls the host from inside the allocator
          (call $log (i32.const 0) (i32.const 0) (i32.const 11))
          unreachable)
        ;; 1: returns an address outside of the memory
          (return (i32.const 0xfffffff0)))
        ;; 0: traps
        unreachable))
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $at) (local.get 3)))
    (local.get $at))
  (func RUN (call $good (local.get $id)))
)
