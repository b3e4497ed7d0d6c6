;; Hostile: passes values that no binding generator would produce. A mini-batch with an even id is good. An odd
;; id chooses an act, whose number is half the id, rounded down.
(module
  (import "sandmill:entry/host@0.2.0" "log" (func $log (param i32 i32 i32)))
  (import "sandmill:entry/host@0.2.0" "read" (func $read (param i32 i32 i32)))
  (import "sandmill:entry/host@0.2.0" "gpu-index" (func $gpu_index (param i32)))
  COMMON
  GOOD
  (table $grows 4096 funcref)
  (type $other (func (param i64 i64) (result f64)))
  (elem (table $grows) (i32.const 0) func $deep)
  ;; Returns ok with a variant (kind, pointer and length), at address 512.
  (func $results (param $kind i32) (param $at i32) (param $length i32) (result i32)
    (i32.store8 (i32.const 512) (i32.const 0))
    (i32.store8 (i32.const 516) (local.get $kind))
    (i32.store (i32.const 520) (local.get $at))
    (i32.store (i32.const 524) (local.get $length))
    (i32.const 512))
  ;; Returns an error, at address 512.
  (func $error (param $at i32) (param $length i32) (result i32)
    (i32.store8 (i32.const 512) (i32.const 1))
    (i32.store (i32.const 516) (local.get $at))
    (i32.store (i32.const 520) (local.get $length))
    (i32.const 512))
  ;; Returns a single row, described at address 528.
  (func $row (param $at i32) (param $length i32) (result i32)
    (i32.store (i32.const 528) (local.get $at))
    (i32.store (i32.const 532) (local.get $length))
    (call $results (i32.const 0) (i32.const 528) (i32.const 1)))
  ;; Grows the memory to this number of pages.
  (func $pages (param $count i32)
    (drop (memory.grow (i32.sub (local.get $count) (memory.size)))))
  (func $deep (param $n i32) (result i32)
    (i32.add (i32.const 1) (call $deep (i32.add (local.get $n) (i32.const 1)))))
  ;; Returns rows that all point to the same text of 64 KB.
  (func $same_rows (param $count i32) (result i32)
    (local $n i32)
    (call $pages (i32.const 40))
    (loop $next
      (i32.store (i32.add (i32.const 131072) (i32.mul (local.get $n) (i32.const 8))) (i32.const 0))
      (i32.store (i32.add (i32.const 131076) (i32.mul (local.get $n) (i32.const 8)))
        (i32.const 65536))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (local.get $count))))
    (call $results (i32.const 0) (i32.const 131072) (local.get $count)))
  (data (i32.const 600) "forged\ff\fe\00nul\1b[2J")
  ;; Two rows: "forged", and two bytes that are invalid UTF-8.
  (data (i32.const 640) "\58\02\00\00\06\00\00\00\5e\02\00\00\02\00\00\00")
  ;; An outcome of kind 9.
  (data (i32.const 660) "\09\00\00\00\58\02\00\00\06\00\00\00")
  (func RUN
    (if (i64.eqz (i64.and (local.get $id) (i64.const 1)))
      (then (return (call $good (local.get $id)))))
    (block $a0 (block $a1 (block $a2 (block $a3 (block $a4 (block $a5 (block $a6 (block $a7
    (block $a8 (block $a9 (block $a10 (block $a11 (block $a12 (block $a13 (block $a14 (block $a15
    (block $a16 (block $a17 (block $a18 (block $a19 (block $a20 (block $a21 (block $a22 (block $a23
    (block $a24 (block $a25 (block $a26 (block $a27
      (br_table $a0 $a1 $a2 $a3 $a4 $a5 $a6 $a7 $a8 $a9 $a10 $a11 $a12 $a13 $a14 $a15 $a16 $a17
        $a18 $a19 $a20 $a21 $a22 $a23 $a24 $a25 $a26 $a27
        (i32.wrap_i64 (i64.shr_u (local.get $id) (i64.const 1))))
    )
    ;; 27: a recursion without end
      (return (call $deep (i32.const 0))))
    ;; 26: a call of a function of another type
      (drop (call_indirect $grows (type $other) (i64.const 0) (i64.const 0) (i32.const 0)))
      unreachable)
    ;; 25: grows a table without end
      (loop $more
        (br_if $more
          (i32.ne (table.grow $grows (ref.null func) (table.size $grows)) (i32.const -1))))
      unreachable)
    ;; 24: grows the memory without end
      (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
      unreachable)
    ;; 23: reads a path of 1 GB
      (call $pages (i32.const 16500))
      (call $read (i32.const 0) (i32.const 1073741824) (i32.const 512))
      (return (call $good (local.get $id))))
    ;; 22: logs at a level that does not exist
      (call $log (i32.const 77) (i32.const 600) (i32.const 6))
      (return (call $good (local.get $id))))
    ;; 21: logs invalid UTF-8
      (call $log (i32.const 0) (i32.const 606) (i32.const 2))
      (return (call $good (local.get $id))))
    ;; 20: logs a text outside of the memory
      (call $log (i32.const 0) (i32.const 0xfffffff0) (i32.const 0xffff))
      (return (call $good (local.get $id))))
    ;; 19: asks the host to write its answer outside of the memory
      (call $gpu_index (i32.const 0xfffffff0))
      (return (call $good (local.get $id))))
    ;; 18: returns an address that is not aligned
      (return (i32.const 513)))
    ;; 17: returns an address outside of the memory
      (return (i32.const 0xfffffff0)))
    ;; 16: an error of 1 GB
      (call $pages (i32.const 16500))
      (return (call $error (i32.const 65536) (i32.const 1073741824))))
    ;; 15: an error outside of the memory
      (return (call $error (i32.const 0xfffffff0) (i32.const 0xffff))))
    ;; 14: a table outside of the memory
      (return (call $results (i32.const 2) (i32.const 0) (i32.const 0xffffffff))))
    ;; 13: 200,000 rows that all point to the same 64 KB
      (return (call $same_rows (i32.const 200000))))
    ;; 12: 10 million empty rows
      (call $pages (i32.const 16500))
      (return (call $results (i32.const 0) (i32.const 0x1000000) (i32.const 10000000))))
    ;; 11: a row of 1 GB
      (call $pages (i32.const 16500))
      (return (call $row (i32.const 65536) (i32.const 1073741824))))
    ;; 10: an outcome that is neither ok nor error
      (return (call $results (i32.const 1) (i32.const 660) (i32.const 1))))
    ;; 9: a result that is neither ok nor error
      (drop (call $results (i32.const 0) (i32.const 0) (i32.const 0)))
      (i32.store8 (i32.const 512) (i32.const 9))
      (return (i32.const 512)))
    ;; 8: results that are neither rows nor outcomes nor a table
      (return (call $results (i32.const 9) (i32.const 0) (i32.const 0))))
    ;; 7: a row with a null character
      (return (call $row (i32.const 608) (i32.const 4))))
    ;; 6: a forged row before a row of invalid UTF-8
      (return (call $results (i32.const 0) (i32.const 640) (i32.const 2))))
    ;; 5: a row of invalid UTF-8
      (return (call $row (i32.const 606) (i32.const 2))))
    ;; 4: a row of 4 GB
      (return (call $row (i32.const 0) (i32.const 0xffffffff))))
    ;; 3: rows that are not aligned
      (return (call $results (i32.const 0) (i32.const 529) (i32.const 1))))
    ;; 2: 4 billion rows
      (return (call $results (i32.const 0) (i32.const 0) (i32.const 0xffffffff))))
    ;; 1: rows outside of the memory
      (return (call $results (i32.const 0) (i32.const 0xfffffff0) (i32.const 1))))
    ;; 0: traps after a good result is complete
    (drop (call $good (local.get $id)))
    unreachable)
)
