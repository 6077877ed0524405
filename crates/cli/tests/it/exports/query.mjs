// Runs SQL over a trace with the trace processor of Perfetto (WebAssembly): node query.mjs ENGINE_FOLDER TRACE SQL...
// Prints a JSON array of rows for each query.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [folder, trace, ...queries] = process.argv.slice(2);

// What the engine finds in a worker of a browser.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.importScripts = () => {};
Object.defineProperty(globalThis, 'location', { value: { href: `file://${folder}/engine_bundle.js` }, configurable: true });
globalThis.XMLHttpRequest = class {
    open(_method, url) { this.path = path.join(folder, path.basename(url)); }
    send() {
        const bytes = fs.readFileSync(this.path);
        this.status = 200;
        this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
        if (this.onload) this.onload();
    }
    setRequestHeader() {}
};
const node = globalThis.process;
const [log, exit, setExit] = [console.log, node.exit.bind(node), code => { node.exitCode = code; }];
console.warn = () => {};
delete globalThis.process;

// Messages of the engine: protocol buffers.
const varint = value => {
    const bytes = [];
    for (value = BigInt(value); value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
    return [...bytes, Number(value)];
};
const field = (number, bytes) => Buffer.concat([Buffer.from([...varint(number << 3 | 2), ...varint(bytes.length)]), bytes]);
const number = (id, value) => Buffer.from([...varint(id << 3), ...varint(value)]);
const readVarint = at => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
        const byte = at.bytes[at.offset++];
        value |= BigInt(byte & 127) << shift;
        if (byte < 128) return BigInt.asIntN(64, value);
    }
};
function* fields(bytes) {
    const at = { bytes, offset: 0 };
    while (at.offset < bytes.length) {
        const tag = Number(readVarint(at));
        if ((tag & 7) === 0) yield [tag >> 3, readVarint(at)];
        else if ((tag & 7) === 1) at.offset += 8;
        else {
            const length = Number(readVarint(at));
            yield [tag >> 3, bytes.subarray(at.offset, at.offset += length)];
        }
    }
}
const varints = bytes => {
    const [at, all] = [{ bytes, offset: 0 }, []];
    while (at.offset < bytes.length) all.push(readVarint(at));
    return all;
};

const replies = [];
let sequence = 0;
const port = { postMessage: bytes => replies.push(Buffer.from(bytes)) };
const send = body => port.onmessage({ data: new Uint8Array(field(1, Buffer.concat([number(1, sequence++), ...body]))) });

// The rows of the replies to a query.
function rows() {
    const [names, all] = [[], []];
    for (const [, message] of fields(Buffer.concat(replies.splice(0)))) {
        for (const [id, result] of fields(message)) {
            if (id === 5) throw new Error(result.toString());
            if (id !== 203) continue;
            for (const [id, value] of fields(result)) {
                if (id === 1) names.push(value.toString());
                if (id === 2 && value.length) throw new Error(value.toString());
                if (id === 3) add(all, names, value);
            }
        }
    }
    return all;
}
function add(all, names, batch) {
    const [cells, integers, floats, texts] = [[], [], [], []];
    for (const [id, value] of fields(batch)) {
        if (id === 1) cells.push(...varints(value).map(Number));
        if (id === 2) integers.push(...varints(value));
        if (id === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
        if (id === 5) texts.push(...value.toString().split('\0'));
    }
    let row = {};
    cells.forEach((kind, index) => {
        const value = kind === 2 ? Number(integers.shift()) : kind === 3 ? floats.shift() : kind === 4 ? texts.shift() : null;
        row[names[index % names.length]] = value;
        if (index % names.length === names.length - 1) all.push(row), row = {};
    });
}

vm.runInThisContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), 'engine_bundle.js');
globalThis.onmessage({ data: port });
await new Promise(resolve => setTimeout(resolve, 0));
try {
    const file = fs.openSync(trace);
    const chunk = Buffer.alloc(8 << 20);
    for (let count; (count = fs.readSync(file, chunk)) > 0;) send([number(2, 1), field(101, chunk.subarray(0, count))]);
    send([number(2, 2)]);
    replies.length = 0;
    for (const query of queries) {
        send([number(2, 3), field(103, field(1, Buffer.from(query)))]);
        log(JSON.stringify(rows()));
    }
} catch (error) {
    console.error(String(error.stack));
    setExit(1);
}
