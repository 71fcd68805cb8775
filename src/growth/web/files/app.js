// The page: what growth does, and why. Every part follows one store, which follows the server.

import { Part } from "./parts.js";
import { Store } from "./store.js";

const store = new Store();
Part.store = store;
globalThis.growth = store; // for people with a console, and for tests

await Promise.all(["nodes", "panels", "costs", "explain", "search", "stage"].map((name) => import(`./${name}.js`)));
store.announce();
store.pending.add("connection");
store.follow();
