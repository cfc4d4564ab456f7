// Is what comes in a valid OpenAPI document? Says what is not, and ends with 1 then.
import { text } from "node:stream/consumers";
import SwaggerParser from "@apidevtools/swagger-parser";

try {
  await SwaggerParser.validate(JSON.parse(await text(process.stdin)));
} catch (e) {
  console.error(e.message);
  process.exit(1);
}
