import { defineConfig } from "vitest/config";

// One page, hashed files, nothing inline: the server's content policy allows its own files only.
export default defineConfig({
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/ui": "http://127.0.0.1:9292" } },
  test: { include: ["test/**/*.test.ts"] },
});
