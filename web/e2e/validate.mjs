// Is what comes in a valid OpenAPI document? Says what is not, and ends with 1 then; also when a document that is not would
// pass.
import { text } from "node:stream/consumers";
import SwaggerParser from "@apidevtools/swagger-parser";

const document = await text(process.stdin);
const wrong = (doc) =>
  SwaggerParser.validate(doc).then(
    () => null,
    (e) => e.message,
  );

const broken = JSON.parse(document);
delete Object.values(Object.values(broken.paths ?? {})[0] ?? {})[0]?.responses;
const found =
  (await wrong(JSON.parse(document))) ??
  ((await wrong(broken)) ? null : "an operation without an answer is not noticed");
if (found) console.error(found);
process.exit(found ? 1 : 0);
