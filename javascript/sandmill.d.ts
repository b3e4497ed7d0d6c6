// What scripts import from "sandmill".

declare module "sandmill" {
    /** A value of a column. Integers beyond 2^53 are bigint. */
    export type Value = number | bigint | string | boolean | Date | Uint8Array | null;

    /** Columns of one length. `run` of a table job gets one, and may return one. */
    export class Table implements Iterable<Record<string, Value>> {
        constructor(columns: Record<string, ArrayLike<Value | undefined>>);
        readonly columns: Record<string, Value[]>;
        readonly names: string[];
        /** The number of rows. */
        readonly length: number;
        /** The values of a column; throws where there is none of this name. */
        get(name: string): Value[];
        select(...names: string[]): Table;
        /** With these columns added, or in place of those of the same name. */
        with(columns: Record<string, ArrayLike<Value | undefined>>): Table;
        [Symbol.iterator](): Iterator<Record<string, Value>>;
    }

    /** The second argument of `run`. */
    export interface Context {
        /** Counts from 0 within the job. */
        id: number;
        /** The name of the input. */
        dataset: string;
        /** 1 for the first attempt. */
        attempt: number;
        partitionKeyValue: Record<string, string>;
    }

    /** In what `run` returns: the item at this place failed. */
    export class Failed {
        constructor(reason: string);
        readonly reason: string;
    }
    export function failed(reason: string): Failed;

    /** Whole numbers for a Table: they are written as such, and not as floats. */
    export function int64(values: Iterable<number | bigint | null>): Value[];

    /** The job's arguments. */
    export function args(): string[];
    /** The environment of the job file. */
    export function env(): Record<string, string>;
    export function agentName(): string;
    export function nodeId(): string;
    export function logDir(): string;
    export function outputDir(): string;
    export function sourceDir(): string | undefined;

    /** Writes a text to the worker's standard output, or standard error, without a line end. */
    export function print(text: string): void;
    export function printError(text: string): void;

    /** Lines of the entry script's log. */
    export const log: Record<"error" | "warning" | "info" | "debug", (...values: unknown[]) => void>;

    /** A whole file; throws an Error that says why it cannot be read. */
    export function read(path: string): Uint8Array;
    export function readText(path: string): string;
    /** Writes a file below outputDir(), logDir() or /tmp. */
    export function writeFile(path: string, data: string | Uint8Array): void;

    /** The job's models, computed by the host. */
    export namespace models {
        type Numbers = number | bigint | ArrayLike<number | bigint> | readonly Numbers[];
        type NumberArray = Float32Array | Float64Array | Uint8Array | Int32Array | BigInt64Array;

        /** Numbers in a shape; the last dimension is the fastest in `values`. */
        class Tensor {
            constructor(shape: number[], values: ArrayLike<number | bigint>);
            readonly shape: number[];
            readonly values: NumberArray;
            /** Arrays in arrays, one level for each dimension. */
            toArray(): any;
        }

        /** An input or an output. A size that may vary is null; the shape is null where the model does not say it. */
        interface Port {
            name: string;
            type: string;
            shape: (number | null)[] | null;
        }

        interface Model {
            readonly name: string;
            readonly inputs: Port[];
            readonly outputs: Port[];
            /** Takes a tensor for each input by its name, or one alone where the model has one input. */
            run(inputs: Tensor | Numbers | Record<string, Tensor | Numbers>): Record<string, Tensor>;
        }

        /** In the host's words. */
        class ModelError extends Error {}

        /** The names of the job's models. */
        function names(): string[];
        /** Loads a model by its name in the job file. Call it in `init`. */
        function load(name: string): Model;
    }
}
