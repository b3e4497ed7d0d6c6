// `models` of "sandmill": the job's models, which the host runs on the CPU or a GPU, outside of the sandbox.

import { describe, names as hostNames } from "sandmill:entry/models@0.2.0";
import { loadByName } from "wasi:nn/graph@0.2.0-rc-2024-10-28";
import { Tensor as HostTensor } from "wasi:nn/tensor@0.2.0-rc-2024-10-28";

// The typed array for each type of tensor. Tensors and typed arrays both store numbers as little-endian.
const ARRAYS = { fp32: Float32Array, fp64: Float64Array, u8: Uint8Array, i32: Int32Array, i64: BigInt64Array };

/** A model cannot be loaded or run. The message is from the host. */
export class ModelError extends Error {
    name = "ModelError";
}

/** Numbers in a shape. `values` is a typed array of the numbers in row-major order. */
export class Tensor {
    constructor(shape, values) {
        const count = shape.reduce((product, size) => product * size, 1);
        if (count !== values.length) throw new RangeError(`a tensor of shape [${shape}] has ${count} values, not ${values.length}`);
        Object.assign(this, { shape, values });
    }

    /** The values as nested arrays, one level for each dimension. */
    toArray() {
        let values = numbersOf(this.values);
        for (const size of this.shape.slice(1).reverse()) {
            const rows = [];
            for (let at = 0; at < values.length; at += size) rows.push(values.slice(at, at + size));
            values = rows;
        }
        return this.shape.length ? values : values[0];
    }
}

/** Converts 64-bit integers to numbers, unless an integer is beyond 2^53. Columns of tables have the same rule. */
function numbersOf(values) {
    const array = [...values];
    if (!(values instanceof BigInt64Array)) return array;
    const numbers = array.map(Number);
    return numbers.every(Number.isSafeInteger) ? numbers : array;
}

class Model {
    #context;

    constructor(name, described, context) {
        this.name = name;
        this.inputs = described.inputs.map(portOf);
        this.outputs = described.outputs.map(portOf);
        this.#context = context;
    }

    /** Runs the model. Takes an object with a tensor for each input. If the model has one input, you can also pass
     * its tensor. */
    run(inputs) {
        const named = isNumbers(inputs) ? this.#onlyInput(inputs) : inputs;
        const tensors = Object.entries(named).map(([name, value]) => {
            const port = this.inputs.find((port) => port.name === name);
            if (!port) throw new ModelError(`model "${this.name}" has no input "${name}"; it has: ${this.inputs.map(({ name }) => name).join(", ")}`);
            const { shape, values } = tensorOf(value, port);
            return [name, new HostTensor(shape, port.type.toUpperCase(), new Uint8Array(values.buffer, values.byteOffset, values.byteLength))];
        });
        const outputs = withModelErrors(() => this.#context.compute(tensors));
        return Object.fromEntries(outputs.map(([name, tensor]) => [name, fromHost(tensor)]));
    }

    #onlyInput(value) {
        const names = this.inputs.map(({ name }) => name);
        if (names.length !== 1) throw new TypeError(`model "${this.name}" has ${names.length} inputs: give an object with ${names.join(", ")}`);
        return { [names[0]]: value };
    }
}

const isNumbers = (value) => value instanceof Tensor || Array.isArray(value) || ArrayBuffer.isView(value) || typeof value !== "object";

function portOf({ name, ty, shape }) {
    const sizes = shape?.map((size) => (size.tag === "fixed" ? size.val : null));
    return { name, type: ty.tag === "standard" ? ty.val.toLowerCase() : ty.val, shape: sizes ?? null };
}

function tensorOf(value, port) {
    const { name, type } = port;
    const Typed = arrayOf(type);
    if (value instanceof Tensor) return new Tensor(value.shape, converted(name, value.values, Typed, type));
    if (ArrayBuffer.isView(value)) return new Tensor([value.length], converted(name, value, Typed, type));
    const shape = [];
    let values = [value];
    while (Array.isArray(values[0])) {
        const size = values[0].length;
        if (!values.every((each) => each?.length === size && Array.isArray(each))) {
            throw new RangeError(`input "${name}": its arrays differ in length, or numbers are mixed with arrays`);
        }
        shape.push(size);
        values = values.flat();
    }
    // An empty array does not show its inner dimensions, so they are taken from the model.
    if (!values.length && port.shape) shape.push(...port.shape.slice(shape.length).map((size) => size ?? 0));
    return new Tensor(shape, converted(name, values, Typed, type));
}

function arrayOf(type) {
    const found = ARRAYS[type];
    if (!found) throw new ModelError(`JavaScript scripts do not support tensors of ${type}; export the model with float32`);
    return found;
}

/** Converts numbers to the typed array of a tensor. Refuses a number that would change its value. */
function converted(name, values, Typed, type) {
    if (values instanceof Typed) return values;
    const isWhole = !type.startsWith("fp");
    const result = new Typed(values.length);
    values.forEach((value, at) => {
        const isNumber = typeof value === "number" || typeof value === "bigint";
        if (isNumber && (!isWhole || typeof value === "bigint" || Number.isInteger(value))) {
            result[at] = type === "i64" ? BigInt(value) : Number(value);
            // An integer that does not fit wraps around, so it differs now.
            if (!isWhole || result[at] == value) return;
        }
        throw new TypeError(`input "${name}" takes ${type}, not ${typeof value === "string" ? JSON.stringify(value) : value}`);
    });
    return result;
}

function fromHost(tensor) {
    const bytes = tensor.data();
    const Typed = arrayOf(tensor.ty().toLowerCase());
    return new Tensor([...tensor.dimensions()], new Typed(bytes.slice().buffer));
}

/** Calls the host. Turns an error of the host into a ModelError. */
function withModelErrors(call) {
    try {
        return call();
    } catch (error) {
        const reason = error.payload ?? error;
        throw new ModelError(typeof reason?.data === "function" ? reason.data() : (reason?.message ?? String(reason)));
    }
}

/** The names of the job's models. */
export const names = () => [...hostNames()];

/** Loads a model by its name in the job file. Call it in `init`, so that each worker loads the model once. */
export const load = (name) => withModelErrors(() => new Model(name, describe(name), loadByName(name).initExecutionContext()));
