// The types of the module "sandmill" that scripts import.

declare module "sandmill" {
    /** A value of a column. If a column has integers beyond 2^53, its integers are bigint. */
    export type Value = number | bigint | string | boolean | Date | Uint8Array | null;

    /** Columns of equal length. `run` of a table job receives one, and may return one. */
    export class Table implements Iterable<Record<string, Value>> {
        constructor(columns: Record<string, ArrayLike<Value | undefined>>);
        readonly columns: Record<string, Value[]>;
        readonly names: string[];
        /** The number of rows. */
        readonly length: number;
        /** The values of a column. Throws if there is no column of this name. */
        get(name: string): Value[];
        /** A new table with only these columns. */
        select(...names: string[]): Table;
        /** A new table with these columns added. A column replaces one of the same name. */
        with(columns: Record<string, ArrayLike<Value | undefined>>): Table;
        [Symbol.iterator](): Iterator<Record<string, Value>>;
    }

    /** The second argument of `run`. */
    export interface Context {
        /** The number of the mini-batch within the job, counted from 0. */
        id: number;
        /** The name of the input. */
        dataset: string;
        /** 1 for the first attempt. */
        attempt: number;
        partitionKeyValue: Record<string, string>;
    }

    /** An element of the array that `run` returns: the item at this position failed. */
    export class Failed {
        constructor(reason: string);
        readonly reason: string;
    }
    /** Makes a Failed. */
    export function failed(reason: string): Failed;

    /** Makes a column of integers for a Table. Numbers in other arrays are written as floats. */
    export function int64(values: Iterable<number | bigint | null>): Value[];

    /** The job's arguments. */
    export function args(): string[];
    /** The environment variables of the job file. */
    export function env(): Record<string, string>;
    export function agentName(): string;
    export function nodeId(): string;
    export function logDir(): string;
    export function outputDir(): string;
    export function sourceDir(): string | undefined;

    /** Writes a text to the worker's standard output, without a line end. */
    export function print(text: string): void;
    /** Writes a text to the worker's standard error, without a line end. */
    export function printError(text: string): void;

    /** Writes lines to the entry script's log. */
    export const log: Record<"error" | "warning" | "info" | "debug", (...values: unknown[]) => void>;
    /** The most verbose level that the log keeps. */
    export function loggingLevel(): "warning" | "info" | "debug";

    /** Reads a whole file. Throws an Error that says why the file cannot be read. */
    export function read(path: string): Uint8Array;
    /** Reads a whole file as UTF-8 text. Throws like `read`. */
    export function readText(path: string): string;
    /** Writes a file below outputDir(), logDir() or /tmp. */
    export function writeFile(path: string, data: string | Uint8Array): void;

    /** The job's models, which the host runs. */
    export namespace models {
        type Numbers = number | bigint | ArrayLike<number | bigint> | readonly Numbers[];
        type NumberArray = Float32Array | Float64Array | Uint8Array | Int32Array | BigInt64Array;

        /** Numbers in a shape. `values` is in row-major order. */
        class Tensor {
            constructor(shape: number[], values: ArrayLike<number | bigint>);
            readonly shape: number[];
            readonly values: NumberArray;
            /** The values as nested arrays, one level for each dimension. */
            toArray(): any;
        }

        /** An input or an output. A size that may vary is null. The shape is null if the model does not state the
         * shape. */
        interface Port {
            name: string;
            type: string;
            shape: (number | null)[] | null;
        }

        interface Model {
            readonly name: string;
            readonly inputs: Port[];
            readonly outputs: Port[];
            /** Runs the model. Takes an object with a tensor for each input. If the model has one input, you
             * can also pass its tensor. */
            run(inputs: Tensor | Numbers | Record<string, Tensor | Numbers>): Record<string, Tensor>;
        }

        /** A model cannot be loaded or run. The message is from the host. */
        class ModelError extends Error {}

        /** The names of the job's models. */
        function names(): string[];
        /** Loads a model by its name in the job file. Call it in `init`. */
        function load(name: string): Model;
    }
}
