// Swagger UI on this server's own document; its cookie is sent along, or a token given by "Authorize".
SwaggerUIBundle({
  url: "/swagger/v1/swagger.json",
  dom_id: "#swagger",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
