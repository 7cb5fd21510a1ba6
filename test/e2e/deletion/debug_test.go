package deletion
import ("fmt";"testing";"github.com/dynamo-operator/dynamo-operator/test/harness";"github.com/dynamo-operator/dynamo-operator/internal/localcluster")
func TestDebug(t *testing.T){
 for i := range 12 {
 t.Run(fmt.Sprint(i), func(t *testing.T){ t.Parallel()
  s:=newScene(t, harness.Namespace(t), &writes{})
  t.Cleanup(func(){ if t.Failed() {
    all,_,_ := localcluster.ReadAudit(harness.AuditLog(t),0)
    for _,r := range all { if r.Namespace==s.ns && r.Verb!="get"&&r.Verb!="list"&&r.Verb!="watch" && (r.Resource=="dynamographdeploymentscalingadapters" || r.Resource=="dynamographdeployments") { fmt.Println(r.Answered.Format("15:04:05.000"), r.User, r.Verb, r.Resource, r.Name, r.Subresource, r.Code)}}
  }})
  aGraphIsOrphanedUnseen(s, foreground)
 })}
}
