// What System.Reflection.Metadata reads in a portable PDB, one line a fact, in the words of tests/oracle/pdb_facts.c:
// every visible sequence point, and every local variable at the start of its scope.
using System.Reflection.Metadata;
using System.Reflection.Metadata.Ecma335;

using MetadataReaderProvider provider = MetadataReaderProvider.FromPortablePdbStream(File.OpenRead(args[0]));
MetadataReader pdb = provider.GetMetadataReader();
foreach (MethodDebugInformationHandle handle in pdb.MethodDebugInformation)
{
    int token = MetadataTokens.GetToken(handle.ToDefinitionHandle());
    foreach (SequencePoint point in pdb.GetMethodDebugInformation(handle).GetSequencePoints())
        if (!point.IsHidden)
            Console.WriteLine($"line {token:x} {point.Offset} {point.StartLine} {point.StartColumn} {pdb.GetString(pdb.GetDocument(point.Document).Name)}");
    MethodDefinitionHandle kickoff = pdb.GetMethodDebugInformation(handle).GetStateMachineKickoffMethod();
    if (!kickoff.IsNil)
        Console.WriteLine($"kickoff {token:x} {MetadataTokens.GetToken(kickoff):x}");
}
foreach (LocalScope scope in pdb.LocalScopes.Select(pdb.GetLocalScope))
    foreach (LocalVariable local in scope.GetLocalVariables().Select(pdb.GetLocalVariable))
        if (local.Attributes == 0)
            Console.WriteLine($"local {MetadataTokens.GetToken(scope.Method):x} {scope.StartOffset} {local.Index} {pdb.GetString(local.Name)}");
